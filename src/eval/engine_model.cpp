#include "eval/engine_model.h"

#include <algorithm>
#include <filesystem>

#include "base/sha256.h"
#include "llm/text_generation.h"

namespace makar {

namespace {

Result<std::vector<int64_t>> encode_messages(const LanguageModel& language, const Json& messages) {
  ChatInput input;
  input.messages = messages;
  input.add_generation_prompt = true;
  return language.encode_chat(input);
}

// The continuation is encoded by itself: its first token never merges with the end of the template.
Result<ScoredText> encode_after_messages(const LanguageModel& language, const LikelihoodRequest& request) {
  ScoredText out;
  MAKAR_TRY(out.tokens, encode_messages(language, request.messages));
  if (language.spec().is_encoder_decoder()) {
    out.source = std::move(out.tokens);
    out.tokens = {language.spec().decoder_start};
  }
  out.from = static_cast<int64_t>(out.tokens.size());
  EncodeOptions plain;
  plain.add_special = false, plain.special_text = SpecialText::kPlain;
  MAKAR_TRY(const Encoding answer, language.tokenizer().encode(request.continuation, plain));
  for (const auto id : answer.ids) out.tokens.push_back(static_cast<int64_t>(id));
  if (answer.ids.empty()) return error_at("continuation", "has no tokens to score");
  return out;
}

// `context`: the context length, 0 without a limit. The input of an encoder is truncated to it on the left; a
// longer text of a decoder is scored in windows.
Result<ScoredText> encode_request(const LanguageModel& language, const LikelihoodRequest& request,
                                  int64_t context) {
  MAKAR_TRY(ScoredText out, request.messages.is_null()
                                ? encode_scored(language, request.context, request.continuation)
                                : encode_after_messages(language, request));
  if (context > 0) truncate_left(out.source, context, 1);
  return out;
}

}  // namespace

std::vector<Result<Loglikelihood>> EngineModel::loglikelihood(std::span<const LikelihoodRequest> requests) {
  const int64_t context = context_size(language_.spec(), engine_.options().context);
  std::vector<Result<ScoredText>> encoded;
  for (const LikelihoodRequest& request : requests)
    encoded.push_back(encode_request(language_, request, context));
  return makar::loglikelihood(engine_, language_, encoded);
}

std::vector<Result<Loglikelihood>> EngineModel::loglikelihood_rolling(std::span<const std::string> texts) {
  std::vector<ContextAndContinuation> requests;
  for (const std::string& text : texts) requests.push_back({"", text});
  return makar::loglikelihood(engine_, language_, requests);
}

std::vector<Result<std::string>> EngineModel::generate_until(std::span<const UntilRequest> requests) {
  std::vector<Result<std::string>> out;
  for (auto& one : generate_block(requests))
    if (one.ok())
      out.emplace_back(std::move(one->text));
    else
      out.emplace_back(one.error());
  return out;
}

std::vector<Result<UntilAnswer>> EngineModel::generate_block(std::span<const UntilRequest> requests) {
  const int64_t context = context_size(language_.spec(), engine_.options().context);
  std::vector<Result<std::unique_ptr<TextGeneration>>> running;
  for (const UntilRequest& request : requests) {
    auto prompt = request.messages.is_null() ? language_.encode(request.prompt)
                                             : encode_messages(language_, request.messages);
    if (!prompt.ok()) {
      running.emplace_back(prompt.error());
      continue;
    }
    if (context > 0)
      truncate_left(*prompt, context, language_.spec().is_encoder_decoder() ? 1 : request.max_tokens);
    TextGenerationOptions options;
    options.max_new_tokens = request.max_tokens;
    options.stop = request.until;
    options.fit = true;
    options.sampler.temperature = request.temperature;
    options.sampler.top_p = request.top_p;
    options.sampler.seed = request.seed;
    running.push_back(TextGeneration::begin(engine_, language_, std::move(*prompt), options));
  }
  const auto any_running = [&] {
    return std::any_of(running.begin(), running.end(),
                       [](const auto& one) { return one.ok() && !(*one)->done(); });
  };
  while (any_running() && engine_.step()) {
  }
  std::vector<Result<UntilAnswer>> out;
  for (auto& one : running) {
    if (!one.ok()) {
      out.emplace_back(one.error());
      continue;
    }
    auto result = (*one)->finish();
    if (result.ok())
      out.emplace_back(
          UntilAnswer{result->answers.at(0).text, result->answers.at(0).finish != Finish::kLength});
    else
      out.emplace_back(result.error());
  }
  return out;
}

Result<std::string> model_fingerprint(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code code;
  std::vector<fs::path> files;
  if (fs::is_directory(path, code)) {
    for (fs::recursive_directory_iterator it(path, code), end; !code && it != end; it.increment(code))
      if (it->is_regular_file(code)) files.push_back(it->path());
  } else {
    files.emplace_back(path);
  }
  std::sort(files.begin(), files.end());
  Sha256 sum;
  for (const fs::path& file : files) {
    const auto size = fs::file_size(file, code);
    const auto time = code ? 0 : fs::last_write_time(file, code).time_since_epoch().count();
    if (code) break;
    sum.add(fmt::format("{} {} {}\n", file.filename().string(), size, time));
  }
  if (code) return error_of(Error::Kind::kIo, path, "cannot be read: {}", code.message());
  return sum.hex();
}

}  // namespace makar
