#include "train/shapes.h"

#include "base/nearest.h"

namespace makar {
namespace {

Json gpt2(const ShapeOptions& o) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", o.vocab},
          {"n_positions", o.context},
          {"n_embd", o.width},
          {"n_layer", o.layers},
          {"n_head", o.heads},
          {"n_inner", o.ffn > 0 ? Json(o.ffn) : Json(nullptr)},
          {"activation_function", "gelu_new"},
          {"resid_pdrop", o.dropout},
          {"embd_pdrop", o.dropout},
          {"attn_pdrop", o.dropout},
          {"layer_norm_epsilon", 1e-5},
          {"initializer_range", 0.02},
          {"tie_word_embeddings", o.tied}};
}

Json llama(const ShapeOptions& o) {
  const int64_t ffn = o.ffn > 0 ? o.ffn : (o.width * 8 / 3 + 31) / 32 * 32;
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", o.vocab},
          {"hidden_size", o.width},
          {"intermediate_size", ffn},
          {"num_hidden_layers", o.layers},
          {"num_attention_heads", o.heads},
          {"num_key_value_heads", o.kv_heads > 0 ? o.kv_heads : o.heads},
          {"max_position_embeddings", o.context},
          {"hidden_act", "silu"},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000.0},
          {"attention_dropout", o.dropout},
          {"initializer_range", 0.02},
          {"tie_word_embeddings", o.tied}};
}

Json bert(const ShapeOptions& o) {
  return {{"architectures", {o.next_sentence ? "BertForPreTraining" : "BertForMaskedLM"}},
          {"model_type", "bert"},
          {"vocab_size", o.vocab},
          {"hidden_size", o.width},
          {"num_hidden_layers", o.layers},
          {"num_attention_heads", o.heads},
          {"intermediate_size", o.ffn > 0 ? o.ffn : 4 * o.width},
          {"hidden_act", "gelu"},
          {"hidden_dropout_prob", o.dropout},
          {"attention_probs_dropout_prob", o.dropout},
          {"max_position_embeddings", o.context},
          {"type_vocab_size", 2},
          {"initializer_range", 0.02},
          {"layer_norm_eps", 1e-12},
          {"tie_word_embeddings", true}};
}

Json t5(const ShapeOptions& o) {
  return {{"architectures", {"T5ForConditionalGeneration"}},
          {"model_type", "t5"},
          {"vocab_size", o.vocab},
          {"d_model", o.width},
          {"d_kv", o.width / o.heads},
          {"d_ff", o.ffn > 0 ? o.ffn : 4 * o.width},
          {"num_layers", o.layers},
          {"num_decoder_layers", o.layers},
          {"num_heads", o.heads},
          {"relative_attention_num_buckets", 32},
          {"relative_attention_max_distance", 128},
          {"dropout_rate", o.dropout},
          {"layer_norm_epsilon", 1e-6},
          {"initializer_factor", 1.0},
          {"feed_forward_proj", "relu"},
          {"is_encoder_decoder", true},
          {"tie_word_embeddings", true}};
}

Json bart(const ShapeOptions& o) {
  const int64_t ffn = o.ffn > 0 ? o.ffn : 4 * o.width;
  return {{"architectures", {"BartForConditionalGeneration"}},
          {"model_type", "bart"},
          {"vocab_size", o.vocab},
          {"d_model", o.width},
          {"encoder_layers", o.layers},
          {"decoder_layers", o.layers},
          {"encoder_attention_heads", o.heads},
          {"decoder_attention_heads", o.heads},
          {"encoder_ffn_dim", ffn},
          {"decoder_ffn_dim", ffn},
          {"activation_function", "gelu"},
          {"dropout", o.dropout},
          {"attention_dropout", 0.0},
          {"activation_dropout", 0.0},
          {"max_position_embeddings", o.context},
          {"init_std", 0.02},
          {"scale_embedding", false},
          {"is_encoder_decoder", true},
          {"tie_word_embeddings", true}};
}

// "LstmForCausalLM" and so on; the encoder of an encoder-decoder reads both directions.
Json recurrent(const ShapeOptions& o) {
  std::string model = o.type;
  model[0] = static_cast<char>(model[0] - 'a' + 'A');
  const bool pair = o.encoder_decoder;
  Json config = {{"architectures",
                  {model + (pair              ? "ForConditionalGeneration"
                            : o.bidirectional ? "Model"
                                              : "ForCausalLM")}},
                 {"model_type", o.type},
                 {"vocab_size", o.vocab},
                 {"hidden_size", o.width},
                 {"num_hidden_layers", o.layers},
                 {"scale_embedding", true},
                 {"bidirectional", pair || o.bidirectional},
                 {"is_encoder_decoder", pair},
                 {"dropout", o.dropout},
                 {"tie_word_embeddings", o.tied}};
  if (pair) config["attention"] = o.attention, config["local_attention"] = o.local_attention;
  if (pair && o.attention == "location") config["max_position_embeddings"] = o.context;
  return config;
}

Json elmo(const ShapeOptions& o) {
  return {{"architectures", {"ElmoForBidirectionalLM"}},
          {"model_type", "elmo"},
          {"vocab_size", o.vocab},
          {"hidden_size", o.width},
          {"num_hidden_layers", o.layers},
          {"use_skip_connections", true},
          {"scale_embedding", true},
          {"dropout", o.dropout},
          {"tie_word_embeddings", o.tied}};
}

}  // namespace

bool is_recurrent(const std::string& type) { return type == "rnn" || type == "lstm" || type == "gru"; }

Result<Json> shape_config(const ShapeOptions& o) {
  struct Entry {
    const char* type;
    Json (*make)(const ShapeOptions&);
  };
  constexpr Entry kTypes[] = {{"gpt2", gpt2},      {"llama", llama},   {"bert", bert},
                              {"t5", t5},          {"bart", bart},     {"rnn", recurrent},
                              {"lstm", recurrent}, {"gru", recurrent}, {"elmo", elmo}};
  for (const auto& [name, value] : {std::pair("layers", o.layers),
                                    {"width", o.width},
                                    {"heads", o.heads},
                                    {"context", o.context},
                                    {"vocab", o.vocab}})
    if (value < 1) return error_at("model", "{} must be at least 1, got {}", name, value);
  if (o.width % o.heads != 0)
    return error_at("model", "the width ({}) must be a multiple of the number of heads ({})", o.width,
                    o.heads);
  std::vector<std::string> known;
  for (const Entry& e : kTypes) {
    known.emplace_back(e.type);
    if (o.type != e.type) continue;
    Json config = e.make(o);
    for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) config[key] = nullptr;
    return config;
  }
  return error_at("model_type", "unknown type '{}'{}; expected one of: {}", o.type,
                  did_you_mean(o.type, known), fmt::join(known, ", "));
}

void set_depth(ShapeOptions& o, int64_t depth) { o.layers = depth, o.width = 64 * depth, o.heads = depth; }

int64_t optimal_tokens(int64_t parameters) { return 20 * parameters; }

}  // namespace makar
