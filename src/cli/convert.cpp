// makar convert: converts a model from one file format to another.
#include <fmt/format.h>

#include "base/file.h"
#include "base/nearest.h"
#include "cli/model_options.h"
#include "cli/model_path.h"
#include "cli/run.h"
#include "convert/folder.h"
#include "convert/gguf_model.h"
#include "quant/mix.h"

namespace makar {
namespace {

const std::vector<std::pair<std::string, DType>> kTypes = {
    {"f32", DType::kF32}, {"f16", DType::kF16}, {"bf16", DType::kBF16}, {"q8_0", DType::kQ8_0}};

Result<std::optional<DType>> parse_type(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (text == "auto") return std::optional<DType>();
  std::vector<std::string> names = {"auto"};
  for (const auto& [name, type] : kTypes) {
    if (text == name) return std::optional<DType>(type);
    names.push_back(name);
  }
  const auto& mixes = mix_names();
  if (std::find(mixes.begin(), mixes.end(), text) != mixes.end())
    return error_at("--outtype",
                    "convert writes f32, f16, bf16 or q8_0; makar quantize writes {}: makar "
                    "quantize FROM TO.gguf --type {}",
                    text, text);
  return error_at("--outtype", "'{}' is not a known type; expected {}{}", text, fmt::join(names, ", "),
                  did_you_mean(text, names));
}

void print_warnings(const std::vector<std::string>& warnings) {
  for (const std::string& text : warnings) warn(text);
}

Status to_gguf(const std::string& from, const std::string& to, const std::string& tokenizer,
               std::optional<DType> type, ThreadPool& pool) {
  MAKAR_TRY(GgufModel model, open_as_gguf(from, {tokenizer}));
  print_warnings(model.warnings);
  if (type) {
    retype(
        model,
        [&](const GgufTensorSource& t) {
          if (!may_be_quantized(t)) return DType::kF32;
          return t.shape[-1] % layout_of(*type).elements == 0 ? *type : DType::kF16;
        },
        pool);
    model.fields.set("general.file_type", GgufValue::u32(static_cast<uint32_t>(file_type(name(*type)))));
  }
  model.fields.set("general.quantization_version", GgufValue::u32(2));
  return write_gguf(to, model.fields, model.tensors);
}

Status to_folder(const std::string& from, const std::string& to, const std::string& tokenizer,
                 std::optional<DType> type, ThreadPool& pool) {
  if (type && is_block(*type))
    return error_of(Error::Kind::kUnsupported, "--outtype", "a folder holds f32, f16 or bf16; {} is for GGUF",
                    name(*type));
  ModelSource source;
  if (is_checkpoint(from)) {
    MAKAR_TRY(const Gguf::File file, open_checkpoint(from, tokenizer));
    MAKAR_TRY(source, ModelSource::of(file));
  } else {
    MAKAR_TRY(source, ModelSource::open(from));
  }
  MAKAR_TRY(const auto warnings, write_folder(source, to, type, pool));
  print_warnings(warnings);
  return Done{};
}

}  // namespace

int run_convert(const std::vector<std::string>& arguments) {
  std::string from, to, type_text = "auto", tokenizer;
  int64_t threads = 0;
  Options options(
      "convert",
      "Convert a model: a Hugging Face folder to GGUF and back, a llama2.c checkpoint to either. Converts "
      "the tokenizer and the chat template too.",
      "makar convert MODEL_FOLDER model.gguf --outtype q8_0");
  declare_model(options, from, "FROM");
  options.add("--tokenizer", &tokenizer, "tokenizer, if it is not with the model (llama2.c: its .bin)",
              "PATH");
  options.group("Output");
  auto& output = options.add("-o --output --outfile", &to,
                             "what to write: a GGUF file (NAME.gguf) or a Hugging Face folder", "PATH");
  output.required = true, output.position = "TO";
  options.add("--outtype --type", &type_text,
              "type of the weights: auto (keep), f32, f16, bf16, or q8_0 for GGUF", "TYPE");
  declare_threads(options, threads);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  const auto type = parse_type(type_text);
  if (!type.ok()) return report(type.error()), 2;
  ThreadPool pool(static_cast<int>(threads));
  from = resolve_model(from);
  const Status done = to.ends_with(".gguf") ? to_gguf(from, to, tokenizer, *type, pool)
                                            : to_folder(from, to, tokenizer, *type, pool);
  if (!done.ok()) return report(done.error());
  fmt::print("{}: written\n", to);
  return 0;
}

}  // namespace makar
