#include "eval/cached_model.h"

#include "base/sha256.h"
#include "text/base64.h"
#include "text/unicode.h"

namespace makar {
namespace {

std::string hash_of(const Json& identity, const char* call, const std::vector<std::string>& parts) {
  Sha256 sum;
  const auto add = [&](const std::string& part) { sum.add(fmt::format("{}:", part.size())), sum.add(part); };
  add(identity.dump()), add(call);
  for (const std::string& part : parts) add(part);
  return sum.hex();
}

std::string key_of(const Json& identity, const LikelihoodRequest& one) {
  return hash_of(identity, "loglikelihood", {one.context, one.continuation, one.messages.dump()});
}
std::string key_of(const Json& identity, const std::string& text) {
  return hash_of(identity, "rolling", {text});
}
std::string key_of(const Json& identity, const UntilRequest& one, const char* call = "generate") {
  return hash_of(identity, call,
                 {one.prompt, Json(one.until).dump(), one.messages.dump(),
                  fmt::format("{} {} {} {}", one.max_tokens, one.temperature, one.top_p, one.seed)});
}

Json to_json(const Loglikelihood& one) {
  return Json::array({one.logprob, one.is_greedy, one.tokens, one.windows});
}
// JSON holds UTF-8 only; other bytes (a block of tokens may end inside a character) are stored as base64.
Json to_json(const std::string& text) {
  return is_valid_utf8(text) ? Json::array({text}) : Json::array({encode_base64(text), "base64"});
}
Json to_json(const UntilAnswer& one) { return Json::array({to_json(one.text), one.ended}); }

// The cache file may have been edited: a response of another form is requested again.
bool read(const Json& json, Loglikelihood& out) {
  if (json.size() != 4 || !json[0].is_number() || !json[1].is_boolean() || !json[2].is_number_integer() ||
      !json[3].is_number_integer())
    return false;
  out.logprob = json[0], out.is_greedy = json[1], out.tokens = json[2], out.windows = json[3];
  return true;
}
bool read(const Json& json, std::string& out) {
  if (!json.is_array() || json.empty() || json.size() > 2 || !json[0].is_string()) return false;
  out = json[0];
  if (json.size() == 1) return true;
  auto bytes = json[1] == "base64" ? decode_base64(out) : std::nullopt;
  if (!bytes) return false;
  out = std::move(*bytes);
  return true;
}
bool read(const Json& json, UntilAnswer& out) {
  if (json.size() != 2 || !json[1].is_boolean() || !read(json[0], out.text)) return false;
  out.ended = json[1];
  return true;
}

// Results from the cache; `compute` returns the missing ones, which are added to the cache.
template <class Value, class Request, class Compute, class... Call>
std::vector<Result<Value>> cached(EvalCache& cache, const Json& identity, std::span<const Request> requests,
                                  const Compute& compute, Call... call) {
  std::vector<Result<Value>> out(requests.size(), Result<Value>(Value()));
  std::vector<Request> missing;
  std::vector<size_t> indices;  // of the missing requests
  std::vector<std::string> keys;
  for (size_t i = 0; i < requests.size(); ++i) {
    keys.push_back(key_of(identity, requests[i], call...));
    const Json* found = cache.find(keys[i]);
    Value value;
    if (found && read(*found, value))
      out[i] = std::move(value);
    else
      missing.push_back(requests[i]), indices.push_back(i);
  }
  if (missing.empty()) return out;
  const auto answers = compute(missing);
  check(answers.size() == missing.size(), "a model returns one result per request");
  for (size_t i = 0; i < answers.size(); ++i) {
    out[indices[i]] = answers[i];
    if (!answers[i].ok()) continue;
    if (const Status added = cache.add(keys[indices[i]], to_json(*answers[i])); !added.ok())
      out[indices[i]] = added.error();
  }
  if (const Status flushed = cache.flush(); !flushed.ok()) out[indices[0]] = flushed.error();
  return out;
}

}  // namespace

std::vector<Result<Loglikelihood>> CachedModel::loglikelihood(std::span<const LikelihoodRequest> requests) {
  return cached<Loglikelihood>(cache_, model_.identity(), requests,
                               [&](const auto& missing) { return model_.loglikelihood(missing); });
}
std::vector<Result<Loglikelihood>> CachedModel::loglikelihood_rolling(std::span<const std::string> texts) {
  return cached<Loglikelihood>(cache_, model_.identity(), texts,
                               [&](const auto& missing) { return model_.loglikelihood_rolling(missing); });
}
std::vector<Result<std::string>> CachedModel::generate_until(std::span<const UntilRequest> requests) {
  return cached<std::string>(cache_, model_.identity(), requests,
                             [&](const auto& missing) { return model_.generate_until(missing); });
}
std::vector<Result<UntilAnswer>> CachedModel::generate_block(std::span<const UntilRequest> requests) {
  return cached<UntilAnswer>(
      cache_, model_.identity(), requests,
      [&](const auto& missing) { return model_.generate_block(missing); }, "part");
}

}  // namespace makar
