// The `gguf` section of a family's page: the architecture's name, its metadata keys and its tensor names, for
// reading (gguf_config.h) and writing (the module convert). Several pages share the functions below.
#pragma once
#include <string>
#include <vector>

#include "formats/gguf.h"
#include "models/names.h"

namespace makar {

struct GgufKey {
  const char* key;    // after "ARCHITECTURE."
  const char* field;  // of config.json; "" for keys that are only written, for other readers
  enum Kind { kInteger, kReal, kFlag } kind;
  bool required;                           // when reading a file
  double (*value)(const ModelSpec& spec);  // the value to write; negative: the key is omitted
};
using GgufKeys = std::vector<GgufKey>;
GgufKeys operator+(GgufKeys a, const GgufKeys& b);

// A config field that the format expresses by the presence of a tensor instead of a key.
struct GgufFieldByTensor {
  const char* field;
  const char* tensor;
  Json present, absent;
};

// Tensor names of older or newer converters; read, never written.
struct GgufLayout {
  const char* tensor;  // a file with this tensor has this layout
  NameTable names;
};

struct GgufSection {
  const char* architecture;  // "general.architecture"
  const char* model;         // "LlamaForCausalLM"
  GgufKeys keys;
  // Fields that have these values in every model of the architecture; a model with other values cannot be
  // written.
  std::vector<std::pair<const char*, Json>> implied = {};
  NameTable names = nullptr;
  std::vector<GgufFieldByTensor> fields_by_tensor = {};
  std::vector<GgufLayout> layouts = {};
  const char* rotary_share = nullptr;  // field for the rotated share of a head; null: whole heads are rotated
  bool body_only = false;              // GGUF has no tensors for heads; only the body is written (BERT)
  // Whether a file with this architecture is of this family; null: every file is.
  bool (*matches)(const GgufFields& fields) = nullptr;
  // Sets the fields that need more than one key or a tensor's shape.
  void (*derive)(const Gguf& file, Json& config) = nullptr;
  // Sets keys that `keys` cannot express when writing.
  void (*put)(const ModelSpec& spec, GgufFields& fields) = nullptr;
  // A property of the model that the architecture cannot represent, "" if there is none.
  std::string (*unsupported)(const ModelSpec& spec) = nullptr;
};

namespace gguf {

// The attention whose rotary positions the keys describe: of the first layer that has them and no window,
// else of the first layer that has them.
const AttentionSpec& rotary_attention(const ModelSpec& m);
// Whether all layers except every `period`-th have a sliding window.
bool slides_with_period(const ModelSpec& m, int64_t period);

// Values of a spec.
double width(const ModelSpec& m);
double heads(const ModelSpec& m);
double kv_heads(const ModelSpec& m);
double head_dim(const ModelSpec& m);
double eps(const ModelSpec& m);
double rotary(const ModelSpec& m);
double theta(const ModelSpec& m);
double window(const ModelSpec& m);  // of the layers that have one
double feed_forward(const ModelSpec& m);
double experts(const ModelSpec& m);
double experts_used(const ModelSpec& m);
double expert_width(const ModelSpec& m);

// Keys that most architectures have; the arguments name the family's config fields, "" for none.
GgufKeys sizes(const char* width_field, const char* layers_field, const char* heads_field,
               const char* feed_forward_field, const char* positions_field);
GgufKeys hf_sizes();    // under Llama's field names
GgufKeys rope_keys();   // rotated dimensions and base
GgufKeys llama_keys();  // hf_sizes, grouped heads, RMSNorm, rope_keys
GgufKeys window_key();  // "sliding_window"
GgufKeys expert_keys(const char* count_field);
GgufKeys norm_key(const char* field);      // epsilon of LayerNorm
GgufKeys rms_norm_key(const char* field);  // epsilon of RMSNorm
GgufKeys kv_heads_key();
GgufKeys alibi_key();  // written only: the slopes' base is always 8

// Tensor names of a decoder.
struct Names {
  bool fused = false;     // query, key and value are one concatenated tensor
  bool paired = false;    // rotary positions rotate adjacent pairs: the rows of q and k are reordered
  float norm_offset = 0;  // the file stores norm weights plus this value
};
std::vector<NameRule> decoder_names(const ModelSpec& spec, const Names& names);
std::vector<NameRule> plain_names(const ModelSpec& spec);
std::vector<NameRule> paired_names(const ModelSpec& spec);
std::vector<NameRule> fused_names(const ModelSpec& spec);
// Tensor names of BERT's encoder.
std::vector<NameRule> encoder_names(const ModelSpec& spec);

}  // namespace gguf
}  // namespace makar
