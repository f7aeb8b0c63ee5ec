#include "convert/gguf_model.h"

#include <map>

#include "base/file.h"
#include "convert/gguf_write.h"
#include "convert/tokenizer_fields.h"
#include "formats/llama2c.h"
#include "models/dequantize.h"
#include "models/source.h"
#include "models/tokenizer_hash.h"
#include "quant/encode.h"
#include "quant/gptq.h"

namespace makar {
namespace {

GgufModel from_file(const Gguf::File& file) {
  GgufModel out;
  out.fields = file->fields();
  for (const GgufTensor& t : file->tensors())
    out.tensors.push_back(
        {t.name, t.dtype, t.shape, [file, &t]() -> Result<Tensor> { return file->view(t); }});
  return out;
}

std::string last_part(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

Result<GgufModel> from_folder(const ModelSource& source, const std::string& tokenizer) {
  MAKAR_TRY(LoadedModel loaded, load_model(source));
  GgufModel out;
  auto fields = gguf_fields(loaded);
  if (!fields.ok()) return fields.error().in(source.path);
  out.fields = std::move(*fields);
  out.fields.set("general.name", GgufValue::text(last_part(source.path)));
  MAKAR_TRY(out.tensors, gguf_sources(loaded));
  // The sources refer to the model: keep it alive.
  const auto owner = std::make_shared<LoadedModel>(std::move(loaded));
  for (GgufTensorSource& t : out.tensors) t.make = [owner, make = t.make] { return make(); };
  MAKAR_TRY(const bool found, put_tokenizer(tokenizer, owner->model->spec(), out.fields));
  if (!found) out.warnings.push_back(tokenizer + ": has no tokenizer; the file will have none");
  if (out.fields.find("tokenizer.huggingface.json"))
    out.warnings.push_back(tokenizer +
                           ": llama.cpp does not support this tokenizer; the file stores it as "
                           "tokenizer.huggingface.json, which makar reads and other programs may not");
  return out;
}

}  // namespace

bool is_checkpoint(const std::string& path) { return path.ends_with(".bin") && is_file(path); }

Result<Gguf::File> open_checkpoint(const std::string& path, const std::string& tokenizer) {
  MAKAR_TRY(const Gguf::File checkpoint, open_llama2c(path));
  if (tokenizer.empty()) return checkpoint;
  MAKAR_TRY(const auto map, MappedFile::open(tokenizer));
  MAKAR_TRY(
      const GgufFields vocabulary,
      parse_llama2c_tokenizer(map->bytes(), checkpoint->find("token_embd.weight")->shape[0], tokenizer));
  GgufFields fields = checkpoint->fields();
  for (const auto& [key, value] : vocabulary.list()) fields.set(key, value);
  MAKAR_TRY(const auto data, MappedFile::open(path));
  return Gguf::of(data->bytes(), data, path, std::move(fields), checkpoint->tensors());
}

Result<GgufModel> open_as_gguf(const std::string& path, const OpenOptions& options) {
  GgufModel out;
  if (is_checkpoint(path)) {
    MAKAR_TRY(const Gguf::File file, open_checkpoint(path, options.tokenizer));
    out = from_file(file);
    if (options.tokenizer.empty())
      out.warnings.push_back(path + ": no tokenizer was given; the file will have none");
  } else {
    MAKAR_TRY(const ModelSource source, ModelSource::open(path));
    if (source.gguf) {
      out = from_file(source.gguf);
    } else {
      MAKAR_TRY(out, from_folder(source, options.tokenizer.empty() ? path : options.tokenizer));
    }
    for (std::string& warning : tokenizer_warnings(source)) out.warnings.push_back(std::move(warning));
  }
  put_tokenizer_hashes(out.fields);
  return out;
}

void retype(GgufModel& model, const std::function<DType(const GgufTensorSource&)>& type, ThreadPool& pool,
            const Calibration* calibration) {
  for (GgufTensorSource& t : model.tensors) {
    const DType to = type(t);
    if (to == t.dtype) continue;
    t.make = [make = t.make, to, name = t.name, &pool, calibration]() -> Result<Tensor> {
      MAKAR_TRY(Tensor x, make());
      x = dequantized(x);
      if (!calibration || !is_block(to)) return encode(pool, x, to);
      if (const auto gram = calibration->gram.find(name); gram != calibration->gram.end())
        return encode_gptq(pool, x, to, gram->second);
      const auto it = calibration->importance.find(name);
      return it == calibration->importance.end() ? encode(pool, x, to) : encode(pool, x, to, it->second);
    };
    t.dtype = to;
  }
}

int file_type(const std::string& mix) {
  static const std::map<std::string, int> known = {
      {"f32", 0},     {"f16", 1},     {"bf16", 32}, {"q8_0", 7},    {"q4_0", 2},
      {"q4_1", 3},    {"q5_0", 8},    {"q5_1", 9},  {"q4_k_s", 14}, {"q4_k_m", 15},
      {"q5_k_s", 16}, {"q5_k_m", 17}, {"q6_k", 18}, {"q8_24", 7}};
  const auto it = known.find(mix);
  return it == known.end() ? -1 : it->second;
}

}  // namespace makar
