// The C API of include/makar.h on top of llm. Errors and exceptions become texts of makar_last_error().
#define MAKAR_BUILD
#include <makar.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>

#include "base/failure.h"
#include "base/json.h"
#include "base/version.h"
#include "infer/sampler_options.h"
#include "kernels/cpu_device.h"
#include "llm/loglikelihood.h"
#include "llm/text_generation.h"

struct makar_model {
  makar_model(int threads) : device(threads) {}
  std::mutex call_mutex;  // held by each call that uses the model
  makar::CpuDevice device;
  std::optional<makar::LanguageModel> language;
  std::unique_ptr<makar::Engine> engine;
  std::optional<makar::EmbedOptions> embedding;
};

namespace makar {
namespace {

thread_local std::string last_error;

// Runs f and turns every failure into last_error and `failure_value`.
template <class T, class F>
T guarded(T failure_value, F&& f) noexcept {
  try {
    last_error.clear();
    Result<T> result = f();
    if (result.ok()) return *result;
    last_error = result.error().text();
  } catch (const OutOfMemory& e) {
    last_error = e.what();
  } catch (const std::bad_alloc&) {
    last_error = "out of memory";
  } catch (const DeviceFailure& e) {
    last_error = e.what();
  } catch (const std::exception& e) {
    last_error = std::string("internal error: ") + e.what();
  }
  return failure_value;
}

// The same with the model locked.
template <class T, class F>
T with_model(makar_model* model, T failure_value, F&& f) noexcept {
  return guarded(failure_value, [&]() -> Result<T> {
    if (!model) return error_at("model", "is NULL");
    const std::lock_guard lock(model->call_mutex);
    return f(*model);
  });
}

Result<char*> c_string(const std::string& text) {
  char* out = static_cast<char*>(std::malloc(text.size() + 1));
  if (!out) throw std::bad_alloc();
  std::memcpy(out, text.data(), text.size());
  out[text.size()] = 0;
  return out;
}

struct GenerateCall {
  TextGenerationOptions options;
  bool chat = false;
};

Result<GenerateCall> read_options(const char* text) {
  GenerateCall out;
  out.options.fit = true;
  if (!text || !*text) return out;
  MAKAR_TRY(const Json json, parse_json(text, "options", {size_t{1} << 20, 16}));
  if (!json.is_object()) return error_at("options", "expected a JSON object");
  for (const auto& [key, value] : json.items()) {
    if (key == "max_tokens") {
      if (!value.is_number_integer()) return error_at("options.max_tokens", "expected an integer");
      out.options.max_new_tokens = value.get<int64_t>();
    } else if (key == "chat") {
      if (!value.is_boolean()) return error_at("options.chat", "expected true or false");
      out.chat = value.get<bool>();
    } else if (key == "stop") {
      const Json list = value.is_string() ? Json::array({value}) : value;
      if (!list.is_array()) return error_at("options.stop", "expected a string or a list of strings");
      for (const Json& one : list) {
        if (!one.is_string()) return error_at("options.stop", "expected a string or a list of strings");
        out.options.stop.push_back(one.get<std::string>());
      }
    } else {
      MAKAR_TRY(const bool known, read_sampler_option(out.options.sampler, key, value));
      if (!known) return error_at("options", "has no option '{}'", key);
    }
  }
  MAKAR_RETURN_IF_ERROR(check_sampler(out.options.sampler));
  MAKAR_RETURN_IF_ERROR(check_generation(out.options));
  return out;
}

Result<std::vector<int64_t>> encode_prompt(const LanguageModel& language, const char* prompt, bool chat) {
  if (!chat) return language.encode(prompt);
  ChatInput input;
  input.messages = Json::array({{{"role", "user"}, {"content", prompt}}});
  input.add_generation_prompt = true;
  return language.encode_chat(input);
}

// A language model that generates: decoder-only, with a tokenizer.
Status check_generates(const makar_model& m) {
  const ModelSpec& spec = m.language->spec();
  if (spec.continues_text() && m.language->has_tokenizer()) return Done{};
  return error_of(Error::Kind::kUnsupported, "model",
                  "this function needs a decoder-only model with a tokenizer");
}

Status check_tokenizer(const makar_model& m) {
  if (m.language->has_tokenizer()) return Done{};
  return error_of(Error::Kind::kNotFound, "model", "has no tokenizer");
}

}  // namespace
}  // namespace makar

using namespace makar;

extern "C" {

const char* makar_version(void) { return kMakarVersion; }
const char* makar_last_error(void) { return last_error.c_str(); }
void makar_free(char* text) { std::free(text); }
void makar_close(makar_model* model) { delete model; }

makar_model* makar_open(const char* path, int threads) {
  return guarded<makar_model*>(nullptr, [&]() -> Result<makar_model*> {
    if (!path) return error_at("path", "is NULL");
    if (threads < 0 || threads > 4096) return error_at("threads", "must be 0 to 4096, got {}", threads);
    if (const auto isa = CpuDevice::instructions_in_use(); !isa.ok()) return isa.error();
    auto out = std::make_unique<makar_model>(threads);
    MAKAR_TRY(LanguageModel language, LanguageModel::open(path, out->device));
    out->language.emplace(std::move(language));
    out->engine = std::make_unique<Engine>(out->language->model(), out->device, EngineOptions());
    MAKAR_TRY(out->embedding, embed_options(path, *out->language));
    return out.release();
  });
}

int64_t makar_tokenize(makar_model* model, const char* text, int64_t* ids, int64_t capacity) {
  return with_model<int64_t>(model, -1, [&](makar_model& m) -> Result<int64_t> {
    if (!text || capacity < 0 || (capacity > 0 && !ids))
      return error_at("tokenize", "got NULL or a negative capacity");
    MAKAR_RETURN_IF_ERROR(check_tokenizer(m));
    MAKAR_TRY(const std::vector<int64_t> tokens, m.language->encode(text));
    for (size_t i = 0; i < tokens.size() && static_cast<int64_t>(i) < capacity; ++i) ids[i] = tokens[i];
    return static_cast<int64_t>(tokens.size());
  });
}

char* makar_detokenize(makar_model* model, const int64_t* ids, int64_t count) {
  return with_model<char*>(model, nullptr, [&](makar_model& m) -> Result<char*> {
    if (count < 0 || (count > 0 && !ids)) return error_at("detokenize", "got NULL or a negative count");
    MAKAR_RETURN_IF_ERROR(check_tokenizer(m));
    std::vector<uint32_t> token_ids;
    for (int64_t i = 0; i < count; ++i) {
      if (ids[i] < 0 || ids[i] >= m.language->spec().vocab)
        return error_at("ids", "{} is not in the vocabulary of {}", ids[i], m.language->spec().vocab);
      token_ids.push_back(static_cast<uint32_t>(ids[i]));
    }
    return c_string(m.language->tokenizer().decode(token_ids, false));
  });
}

char* makar_generate(makar_model* model, const char* prompt, const char* options, makar_on_text on_text,
                     void* data) {
  return with_model<char*>(model, nullptr, [&](makar_model& m) -> Result<char*> {
    if (!prompt) return error_at("prompt", "is NULL");
    MAKAR_RETURN_IF_ERROR(check_generates(m));
    MAKAR_TRY(GenerateCall call, read_options(options));
    MAKAR_TRY(std::vector<int64_t> ids, encode_prompt(*m.language, prompt, call.chat));
    if (on_text)
      call.options.on_text = [&](int64_t, const std::string& piece) {
        return on_text(piece.c_str(), data) == 0;
      };
    MAKAR_TRY(const TextGenerationResult result,
              generate_text(*m.engine, *m.language, std::move(ids), call.options));
    return c_string(result.answers.empty() ? "" : result.answers[0].text);
  });
}

int64_t makar_embed(makar_model* model, const char* text, float* vector, int64_t capacity) {
  return with_model<int64_t>(model, -1, [&](makar_model& m) -> Result<int64_t> {
    if (!text || capacity < 0 || (capacity > 0 && !vector))
      return error_at("embed", "got NULL or a negative capacity");
    MAKAR_RETURN_IF_ERROR(check_tokenizer(m));
    MAKAR_TRY(const Tensor embedding, embed(*m.engine, *m.language, {text}, *m.embedding));
    const int64_t width = embedding.dim(1);
    std::copy_n(embedding.f32(), static_cast<size_t>(std::min(width, capacity)), vector);
    return width;
  });
}

int64_t makar_loglikelihood(makar_model* model, const char* context, const char* continuation,
                            double* logprob, int* is_greedy) {
  return with_model<int64_t>(model, -1, [&](makar_model& m) -> Result<int64_t> {
    if (!context || !continuation) return error_at("loglikelihood", "got NULL");
    MAKAR_RETURN_IF_ERROR(check_generates(m));
    const ContextAndContinuation text[] = {{context, continuation}};
    MAKAR_TRY(const Loglikelihood result, std::move(loglikelihood(*m.engine, *m.language, text)[0]));
    if (logprob) *logprob = result.logprob;
    if (is_greedy) *is_greedy = result.is_greedy ? 1 : 0;
    return result.tokens;
  });
}

}  // extern "C"
