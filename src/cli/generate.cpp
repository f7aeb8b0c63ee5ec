// makar generate: continue a prompt of token ids.
#include "infer/generate.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>

#include "base/json.h"
#include "cli/run.h"
#include "infer/sampler_options.h"
#include "models/load.h"

namespace makar {
namespace {

// "5,17,9" or "5 17 9"
Result<std::vector<int64_t>> parse_ids(const std::string& text) {
  std::vector<int64_t> ids;
  const char *at = text.data(), *end = text.data() + text.size();
  while (at < end) {
    if (*at == ',' || *at == ' ') {
      ++at;
      continue;
    }
    int64_t id = 0;
    const auto [next, code] = std::from_chars(at, end, id);
    if (code != std::errc())
      return error_at("--ids", "expects numbers such as 5,17,9; got '{}'", std::string(at, end));
    ids.push_back(id);
    at = next;
  }
  return ids;
}

}  // namespace

int run_generate(const std::vector<std::string>& arguments) {
  std::string model, ids_text;
  int64_t count = 64, threads = 0;
  GenerateOptions o;
  bool json = false;
  Options options("generate", "Continue a prompt of token ids, greedily or by sampling.",
                  "makar generate --model DIR --ids 5,17,9 -n 12");
  options.add("-m --model", &model, "Hugging Face folder of the model", "DIR").required = true;
  options.add("--ids", &ids_text, "the prompt as token ids", "LIST").required = true;
  options.add("-n --n-predict --max-tokens", &count, "tokens to write at most", "N");
  options.add("-t --threads", &threads, "threads; 0 means all cores", "N");
  options.add("--json", &json, "print one JSON object");
  add_sampler_options(options, o.sampler);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  const auto prompt = parse_ids(ids_text);
  if (!prompt.ok()) return report(prompt.error()), 2;
  if (count < 1) return report(error_at("-n", "must be at least 1, got {}", count)), 2;
  if (const auto status = check_sampler(o.sampler); !status.ok()) return report(status.error()), 2;
  auto loaded = load_model(model);
  if (!loaded.ok()) return report(loaded.error());
  ThreadPool pool(static_cast<int>(threads));
  loaded->model->pack(pool);
  o.max_new_tokens = count;
  if (!json)
    o.on_token = [first = true](int64_t id) mutable {
      fmt::print("{}{}", first ? "" : " ", id);
      std::fflush(stdout);
      first = false;
    };
  const auto out = generate(*loaded->model, pool, *prompt, o);
  if (!json) fmt::print("\n");
  if (!out.ok()) return report(out.error());
  if (json) fmt::print("{}\n", Json{{"ids", *out}}.dump());
  return 0;
}

}  // namespace makar
