#include "eval/engine_model.h"

#include <algorithm>
#include <filesystem>

#include "base/sha256.h"
#include "llm/text_generation.h"

namespace makar {

std::vector<Result<Loglikelihood>> EngineModel::loglikelihood(
    std::span<const ContextAndContinuation> requests) {
  return makar::loglikelihood(engine_, language_, requests);
}

std::vector<Result<Loglikelihood>> EngineModel::loglikelihood_rolling(std::span<const std::string> texts) {
  std::vector<ContextAndContinuation> requests;
  for (const std::string& text : texts) requests.push_back({"", text});
  return makar::loglikelihood(engine_, language_, requests);
}

std::vector<Result<std::string>> EngineModel::generate_until(std::span<const UntilRequest> requests) {
  const int64_t context = context_size(language_.spec(), engine_.options().context);
  std::vector<Result<std::unique_ptr<TextGeneration>>> running;
  for (const UntilRequest& request : requests) {
    auto prompt = language_.encode(request.prompt);
    if (!prompt.ok()) {
      running.emplace_back(prompt.error());
      continue;
    }
    if (context > 0) truncate_left(*prompt, context, request.max_tokens);
    TextGenerationOptions options;
    options.max_new_tokens = request.max_tokens;
    options.stop = request.until;
    options.fit = true;
    options.sampler.temperature = request.temperature;
    options.sampler.top_p = request.top_p;
    options.sampler.seed = request.seed;
    running.push_back(TextGeneration::begin(engine_, language_, std::move(*prompt), options));
  }
  const auto waiting = [&] {
    return std::any_of(running.begin(), running.end(),
                       [](const auto& one) { return one.ok() && !(*one)->done(); });
  };
  while (waiting() && engine_.step()) {
  }
  std::vector<Result<std::string>> out;
  for (auto& one : running) {
    if (!one.ok()) {
      out.emplace_back(one.error());
      continue;
    }
    auto result = (*one)->finish();
    if (result.ok())
      out.emplace_back(result->answers.at(0).text);
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
  if (code) return error_of(Error::Kind::kIo, path, "cannot be looked at: {}", code.message());
  return sum.hex();
}

}  // namespace makar
