#include "serve/api/generation_request.h"

#include <algorithm>
#include <ctime>

#include "infer/sampler_options.h"
#include "serve/api/fields.h"

namespace makar {
namespace {

constexpr int64_t kMaxAnswers = 128, kMaxBeams = 64, kMaxAlternatives = 20;
constexpr size_t kMaxStopStrings = 16, kMaxStopBytes = 1024;

// Keys parsed elsewhere, or with a different meaning than in the option table.
bool read_separately(const std::string& key) {
  static const char* const keys[] = {"logprobs", "n", "best_of", "mbr", "beams", "num_beams", "max_time"};
  return std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
}

}  // namespace

Status read_generation_options(const Json& body, GenerationRequest& request) {
  TextGenerationOptions& o = request.options;
  for (const auto& [key, value] : body.items()) {
    if (value.is_null() || read_separately(key)) continue;
    MAKAR_TRY(const bool is_option, read_decoding_option(o, key, value));
    if (is_option && key == "seed") request.has_seed = true;
  }
  constexpr int64_t kMaxTokens = 1 << 20;
  for (const char* key : {"max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict"}) {
    if (!body.contains(key)) continue;
    MAKAR_TRY(o.max_new_tokens, integer_field(body, key, request.echo ? 0 : 1, kMaxTokens, 0));
    request.has_max_tokens = true;
  }
  if (o.max_new_tokens == 0) o.max_new_tokens = 1, request.only_score = true;
  MAKAR_TRY(o.answers, integer_field(body, "n", 1, kMaxAnswers, 1));
  MAKAR_TRY(const int64_t best_of, integer_field(body, "best_of", 1, kMaxAnswers, o.answers));
  MAKAR_TRY(const bool beam_search, flag_field(body, "use_beam_search"));
  if (best_of < o.answers) return error_at("best_of", "is {}, less than n ({})", best_of, o.answers);
  if (beam_search) {
    if (best_of > kMaxBeams)
      return error_at("best_of", "is the number of beams and must be at most {}, got {}", kMaxBeams, best_of);
    o.beams = std::max<int64_t>(best_of, 2), o.sampler.temperature = 0;
    if (request.stream)
      return error_at("use_beam_search", "cannot be streamed: answers are chosen at the end");
  } else if (best_of > o.answers) {
    o.best_of = best_of;
    if (request.stream) return error_at("best_of", "cannot be streamed: answers are chosen at the end");
  }
  MAKAR_TRY(o.stop, texts_field(body, "stop", kMaxStopStrings));
  for (const std::string& stop : o.stop)
    if (stop.empty() || stop.size() > kMaxStopBytes)
      return error_at("stop", "each text must have 1 to {} bytes, got {}", kMaxStopBytes, stop.size());
  if (o.logprobs > kMaxAlternatives)
    return error_at("logprobs", "expected at most {} alternatives, got {}", kMaxAlternatives, o.logprobs);
  return check_generation(o);
}

Status read_format(const Json& body, GenerationRequest& request) {
  MAKAR_TRY(const Json format, object_field(body, "response_format"));
  if (format.is_object()) {
    MAKAR_TRY(const std::string type, text_field(format, "type"));
    if (type == "json_object") {
      request.schema = R"({"type":"object"})";
    } else if (type == "json_schema") {
      const Json* schema = &format;
      if (format.contains("json_schema")) schema = &format["json_schema"];
      if (!schema->is_object() || !schema->contains("schema"))
        return error_at("response_format.json_schema", "needs a \"schema\"");
      request.schema = dump((*schema)["schema"]);
    } else if (type != "text") {
      return error_at("response_format.type", "expected text, json_object or json_schema");
    }
  }
  if (body.contains("guided_json")) {
    const Json& schema = body["guided_json"];
    request.schema = schema.is_string() ? schema.get<std::string>() : dump(schema);
  }
  MAKAR_TRY(request.regex, text_field(body, "guided_regex"));
  MAKAR_TRY(request.grammar, text_field(body, "grammar"));
  if (request.grammar.empty()) {
    MAKAR_TRY(request.grammar, text_field(body, "guided_grammar"));
  }
  if (!request.schema.empty() + !request.regex.empty() + !request.grammar.empty() > 1)
    return error_at("response_format", "set only one of JSON schema, grammar and regular expression");
  return Done{};
}

const std::string& token_at(const std::vector<std::string>& tokens, int64_t id) {
  static const std::string none;
  return id >= 0 && id < static_cast<int64_t>(tokens.size()) ? tokens[static_cast<size_t>(id)] : none;
}

const char* finish_reason(const AnswerEnd& end) {
  if (end.filtered) return "content_filter";
  if (end.finish == Finish::kLength || end.finish == Finish::kTime) return "length";
  return end.calls ? "tool_calls" : "stop";
}

std::string utc(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts = {};
  gmtime_r(&time, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

Json usage_json(const Usage& usage) {
  Json out = {{"prompt_tokens", usage.prompt},
              {"completion_tokens", usage.completion},
              {"total_tokens", usage.prompt + usage.completion},
              {"prompt_tokens_details", {{"cached_tokens", usage.cached}}}};
  if (usage.cost) out["cost"] = *usage.cost, out["currency"] = usage.currency;
  return out;
}

std::string sse(const Json& data) { return "data: " + dump(data) + "\n\n"; }

std::string sse(const std::string& event, const Json& data) {
  return "event: " + event + "\ndata: " + dump(data) + "\n\n";
}

}  // namespace makar
