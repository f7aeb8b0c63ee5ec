// The weights of a model: of a Hugging Face folder (model.safetensors or pytorch_model.bin, or the index of
// one of them and its shards), or of a GGUF file.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "formats/gguf.h"
#include "formats/prequantized.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"

namespace makar {

// All tensors of all files, by unique name. As in transformers, model.safetensors is preferred over an index,
// and safetensors over PyTorch's pickles.
class WeightFiles {
 public:
  static Result<WeightFiles> open(const std::string& folder);
  static WeightFiles of(Gguf::File file);
  // Whether the folder has weight files in a format that is read here, valid or not.
  static bool present(const std::string& folder);
  // Replaces the tensors of prequantized matrices by the matrices, which tensor() decodes.
  Status combine_prequantized(const PrequantizedScheme& scheme);

  const std::string& place() const { return place_; }  // the file, or the index
  const std::vector<std::string>& names() const { return names_; }
  bool has(const std::string& name) const { return entry(name) != nullptr; }
  const TensorFile::Entry* entry(const std::string& name) const;  // nullptr when there is none
  Result<Tensor> tensor(const std::string& name) const;
  // The file with a tensor, for messages; place() when there is none.
  const std::string& place_of(const std::string& name) const;
  size_t total_bytes() const;
  // Whether tensor() decodes a prequantized matrix, which is always [out, in].
  bool is_prequantized(const std::string& name) const { return prequantized_.count(name) != 0; }
  std::string type_of(const std::string& name) const;  // "bf16", "gptq, 4 bits"
  const Gguf* gguf() const { return gguf_.get(); }     // null for a folder

 private:
  void add(std::shared_ptr<const TensorFile> file);
  static Result<WeightFiles> open_sharded(const std::string& folder, const std::string& index);
  const TensorFile::Entry* stored_entry(const std::string& name) const;
  Result<Tensor> stored_tensor(const std::string& name) const;

  std::string place_;
  std::vector<std::shared_ptr<const TensorFile>> files_;
  Gguf::File gguf_;
  std::vector<TensorFile::Entry> gguf_entries_;  // in the order of names_
  std::vector<std::string> names_;
  std::map<std::string, size_t> where_;  // tensor name to its index in files_ or gguf_entries_
  std::optional<PrequantizedScheme> scheme_;
  PrequantizedMatrices prequantized_;
  std::map<std::string, TensorFile::Entry> prequantized_entries_;
};

// Writes one file when the tensors fit into max_shard_bytes, else shards in the given order and their index.
// Files of an earlier save that a reader would pick up instead are removed last.
Status save_weights(const std::string& folder, std::span<const NamedTensor> tensors,
                    size_t max_shard_bytes = size_t{5} << 30);

}  // namespace makar
