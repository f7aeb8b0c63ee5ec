#include "cli/distill_student.h"

#include "base/file.h"
#include "quant/reduce.h"
#include "text/same_tokens.h"
#include "train/distill.h"
#include "train/token_roles.h"

namespace makar {
namespace {

Result<LoadedModel> new_student(const Distill& s, const LanguageModel& teacher) {
  if (!s.student_layers.empty()) {
    MAKAR_TRY(const LoadedModel source, load_model(s.teacher, {true}));
    MAKAR_TRY(std::vector<int64_t> layers,
              chosen_layers(s.student_layers, source.model->spec().main().layers()));
    return reduce_model(source, {std::move(layers), {}, {}}, s.teacher);
  }
  MAKAR_TRY(const std::string text,
            read_file(is_folder(s.student_config) ? s.student_config + "/config.json" : s.student_config));
  MAKAR_TRY(const Config config, Config::parse(text, s.student_config));
  Json json = config.json();
  if (!json.contains("vocab_size")) json["vocab_size"] = teacher.spec().vocab;
  set_special_ids(json, TokenRoles::of(teacher.tokenizer(), s.teacher), teacher.tokenizer());
  MAKAR_TRY(LoadedModel created, make_model(Config(json, s.student_config)));
  initialize(*created.model, static_cast<uint64_t>(s.common.loop.seed));
  return created;
}

}  // namespace

Result<std::vector<int64_t>> chosen_layers(const std::string& student_layers, int64_t teacher_layers) {
  MAKAR_TRY(std::vector<int64_t> numbers, parse_layers(student_layers, teacher_layers, "student_layers"));
  if (numbers.size() == 1) return spread_layers(teacher_layers, numbers[0]);
  for (int64_t& number : numbers) --number;
  return numbers;
}

Result<std::unique_ptr<DistillModels>> open_distill_models(const Distill& s, Device& device) {
  auto out = std::make_unique<DistillModels>();
  MAKAR_TRY(out->teacher_, LanguageModel::open(s.teacher, device));
  const LanguageModel& teacher = *out->teacher_;
  if (!teacher.has_tokenizer())
    return error_of(Error::Kind::kNotFound, s.teacher, "has no tokenizer; training on text needs it");
  if (s.base_model.empty()) {
    MAKAR_TRY(out->new_student_, new_student(s, teacher));
    return out;
  }
  LanguageModelOptions options;
  options.weights = WeightUse::kTrained;
  MAKAR_TRY(out->base_student_, LanguageModel::open(s.base_model, device, options));
  if (out->base_student_->has_tokenizer())
    MAKAR_RETURN_IF_ERROR(
        check_same_tokens(out->base_student_->tokenizer(), teacher.tokenizer(), s.base_model, s.teacher));
  return out;
}

}  // namespace makar
