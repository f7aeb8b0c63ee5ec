#include "convert/folder.h"

#include "base/file.h"
#include "convert/tokenizer_fields.h"
#include "models/dequantize.h"
#include "models/load.h"
#include "models/tokenizer_hash.h"
#include "quant/encode.h"
#include "text/read/read.h"

namespace makar {
namespace {

bool has_blocks(const WeightFiles& files) {
  for (const std::string& name : files.names())
    if (is_block(files.entry(name)->dtype) || files.is_prequantized(name)) return true;
  return false;
}

void convert(Parameter& p, DType type, ThreadPool& pool) {
  if (p.value.dtype() != type) p.value = encode(pool, dequantized(p.value), type);
}

Status copy_if_present(const std::string& from, const std::string& to, const std::string& name) {
  if (!is_file(from + "/" + name)) return Done{};
  MAKAR_TRY(const std::string bytes, read_file(from + "/" + name));
  return write_file(to + "/" + name, bytes);
}

Status add_hashes(const std::string& folder) {
  MAKAR_TRY(Json config, read_json(folder + "/config.json"));
  const std::string tokenizer = folder_tokenizer_hash(folder), chat = folder_template_hash(folder);
  if (!tokenizer.empty()) config["makar.tokenizer_hash"] = tokenizer;
  if (!chat.empty()) config["makar.chat_template_hash"] = chat;
  return write_file(folder + "/config.json", config.dump(2) + "\n");
}

}  // namespace

Result<std::vector<std::string>> write_folder(const ModelSource& source, const std::string& folder,
                                              std::optional<DType> type, ThreadPool& pool) {
  std::vector<std::string> warnings = tokenizer_warnings(source);
  MAKAR_TRY(const WeightFiles files, source.weights());
  MAKAR_TRY(LoadedModel loaded, load_model(source));
  if (!type && has_blocks(files)) type = DType::kF16;
  for (const auto& p : loaded.model->parameters().all())
    if (type && p->shape.rank() >= 2) convert(*p, *type, pool);
  MAKAR_RETURN_IF_ERROR(save_model(folder, *loaded.model, *loaded.family));
  if (source.gguf) {
    MAKAR_TRY(const bool found, write_tokenizer(source.gguf->fields(), folder));
    if (!found) warnings.push_back(source.path + ": has no vocabulary; the folder will have no tokenizer");
  } else {
    for (const std::string& name : tokenizer_file_names())
      MAKAR_RETURN_IF_ERROR(copy_if_present(source.path, folder, name));
    MAKAR_RETURN_IF_ERROR(copy_if_present(source.path, folder, "generation_config.json"));
  }
  MAKAR_RETURN_IF_ERROR(add_hashes(folder));
  return warnings;
}

}  // namespace makar
