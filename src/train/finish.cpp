#include "train/finish.h"

#include <filesystem>

#include "base/file.h"
#include "base/sha256.h"
#include "text/read/read.h"

namespace makar {
namespace {

Status write_tokenizer(const FinishedRun& run) {
  if (!run.tokenizer) return Done{};
  const std::string &from = run.tokenizer_folder, &to = run.settings.output_dir;
  MAKAR_RETURN_IF_ERROR(copy_tokenizer_files(from, to));
  if (!is_file(to + "/tokenizer.json"))
    MAKAR_RETURN_IF_ERROR(write_file(to + "/tokenizer.json", run.tokenizer->to_json().dump() + "\n"));
  if (!run.chat_template.empty())
    MAKAR_RETURN_IF_ERROR(write_file(to + "/chat_template.jinja", run.chat_template));
  if (is_file(to + "/tokenizer_config.json")) return Done{};
  Json config = run.tokenizer_config.is_object() ? run.tokenizer_config : Json::object();
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  return write_file(to + "/tokenizer_config.json", config.dump(2) + "\n");
}

// Copies generation_config.json of the base model, or writes one with the control tokens of the new model.
Status write_generation_config(const FinishedRun& run) {
  const ModelSpec& spec = run.loaded.model->spec();
  if (spec.head.kind != HeadKind::kCausalLm || run.adapter) return Done{};
  const std::string path = run.settings.output_dir + "/generation_config.json";
  if (const std::string base = run.base_model + "/generation_config.json";
      !run.base_model.empty() && is_file(base)) {
    MAKAR_TRY(const std::string bytes, read_file(base, size_t{1} << 20));
    return write_file(path, bytes);
  }
  Json config = {{"_from_model_config", true}};
  if (spec.bos >= 0) config["bos_token_id"] = spec.bos;
  if (!spec.eos.empty()) config["eos_token_id"] = spec.eos.size() == 1 ? Json(spec.eos[0]) : Json(spec.eos);
  if (spec.pad >= 0) config["pad_token_id"] = spec.pad;
  if (spec.encoder && spec.decoder && spec.decoder_start >= 0)
    config["decoder_start_token_id"] = spec.decoder_start;
  return write_file(path, config.dump(2) + "\n");
}

std::vector<std::pair<std::string, std::string>> facts(const FinishedRun& run) {
  const LoopResult& r = run.result;
  std::vector<std::pair<std::string, std::string>> out;
  out.emplace_back("architecture", run.loaded.model->spec().architecture);
  int64_t trained = 0;
  for (const auto& p : run.loaded.model->parameters().all())
    if (p->trainable && !p->buffer) trained += p->shape.count();
  out.emplace_back("parameters",
                   fmt::format("{} ({} trained)", run.loaded.model->parameters().count(), trained));
  out.emplace_back("steps", fmt::format("{}{}", r.steps, r.stopped_early ? " (stopped early)" : ""));
  if (r.bad_steps > 0) out.emplace_back("steps not applied (not finite)", std::to_string(r.bad_steps));
  out.emplace_back("last training loss", fmt::format("{:.4f}", r.last_loss));
  out.emplace_back("time", fmt::format("{:.1f} s, {:.0f} tokens/s", r.seconds,
                                       r.seconds > 0 ? static_cast<double>(r.tokens) / r.seconds : 0));
  if (!run.cost.empty()) out.emplace_back("cost", run.cost);
  return out;
}

Status write_card(const FinishedRun& run) {
  const ModelSpec& spec = run.loaded.model->spec();
  std::string out = fmt::format(
      "---\nlibrary_name: {}\ntags: [makar, {}]\n---\n\n# {} model\n\nA {} with {} parameters, {} with "
      "makar. "
      "`run.json` has the training data and settings, `report.md` the curves and figures.\n",
      run.adapter ? "peft" : "transformers", spec.family, spec.family, spec.architecture,
      run.loaded.model->parameters().count(), run.kind);
  out +=
      "\n## Intended use\n\nTo be written by the publisher of the model.\n\n## Figures\n\n| | "
      "|\n|---|---|\n";
  for (const auto& [name, value] : facts(run)) out += fmt::format("| {} | {} |\n", name, value);
  for (const auto& [name, value] : run.result.validation)
    out += fmt::format("| validation {} | {:.4f} |\n", name, value);
  return write_file(run.settings.output_dir + "/README.md", out);
}

}  // namespace

Status copy_tokenizer_files(const std::string& from, const std::string& to) {
  std::error_code ignored;
  if (!from.empty() && std::filesystem::equivalent(from, to, ignored)) return Done{};
  for (const std::string& name : tokenizer_file_names()) {
    std::filesystem::remove(to + "/" + name, ignored);  // of a model that was there before
    const std::string source = from + "/" + name;
    if (from.empty() || !is_file(source)) continue;
    MAKAR_TRY(const std::string bytes, read_file(source));
    MAKAR_RETURN_IF_ERROR(write_file(to + "/" + name, bytes));
  }
  return Done{};
}

Status finish_run(const FinishedRun& run) {
  const std::string& folder = run.settings.output_dir;
  if (run.adapter) {
    MAKAR_RETURN_IF_ERROR(save_adapter(run.loaded, *run.adapter, folder));
  } else {
    MAKAR_RETURN_IF_ERROR(save_model(folder, *run.loaded.model, *run.loaded.family));
  }
  MAKAR_RETURN_IF_ERROR(write_tokenizer(run));
  MAKAR_RETURN_IF_ERROR(write_generation_config(run));
  MAKAR_RETURN_IF_ERROR(write_card(run));
  RunSummary summary{fmt::format("{} run", run.loaded.model->spec().architecture), facts(run), run.sample,
                     run.command};
  MAKAR_RETURN_IF_ERROR(write_report(folder, summary));
  Json json = run.run;
  json["finished"] = true;
  json["settings"] = run.result.settings;
  json["command"] = run.command;
  json["steps"] = run.result.steps;
  json["loss"] = run.result.last_loss;
  json["validation"] = run.result.validation;
  const char* weights = run.adapter                              ? "/adapter_model.safetensors"
                        : is_file(folder + "/model.safetensors") ? "/model.safetensors"
                                                                 : "/model.safetensors.index.json";
  MAKAR_TRY(json["weights_sha256"], sha256_of_file(folder + weights));
  return write_file(folder + "/run.json", json.dump(2) + "\n");  // last: it marks the run as finished
}

}  // namespace makar
