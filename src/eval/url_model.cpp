#include "eval/url_model.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "base/quote.h"
#include "base/utf8.h"
#include "text/unicode.h"

namespace makar {
namespace {

constexpr size_t kMaxAnswerBytes = size_t{64} << 20;
constexpr int kMaxRetries = 3;
constexpr std::ptrdiff_t kMaxStopStrings = 4;  // of a request to OpenAI's API

// fn(i) for each i below count, on several threads; results in order.
template <class T, class Fn>
std::vector<Result<T>> in_parallel(size_t count, int64_t threads, const Fn& fn) {
  std::vector<std::optional<Result<T>>> results(count);
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i; (i = next++) < count;) results[i] = fn(i);
  };
  std::vector<std::thread> pool;
  for (size_t t = 1; t < std::min(count, static_cast<size_t>(threads)); ++t) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
  std::vector<Result<T>> out;
  for (auto& one : results) out.push_back(std::move(*one));
  return out;
}

const Json* member(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) ? &object[key] : nullptr;
}

const Json* first_choice(const Json& answer) {
  const Json* choices = member(answer, "choices");
  return choices && choices->is_array() && !choices->empty() ? &(*choices)[0] : nullptr;
}

}  // namespace

UrlModel::UrlModel(UrlModelOptions options) : o_(std::move(options)) {
  while (o_.url.ends_with("/")) o_.url.pop_back();
  if (o_.url.ends_with("/v1")) o_.url.resize(o_.url.size() - 3);
}

Result<Json> UrlModel::post(const std::string& route, Json body) const {
  if (!o_.model.empty()) body["model"] = o_.model;
  const HttpClientRequest request{o_.url + route, o_.token};
  for (int attempt = 0;; ++attempt) {
    MAKAR_TRY(const HttpClientResponse answer, http_post_json(request, body.dump(), kMaxAnswerBytes));
    if (answer.status == 200) return parse_json(answer.body, request.url);
    const bool retry = answer.status == 429 || answer.status >= 500;
    if (!retry || attempt == kMaxRetries)
      return error_of(Error::Kind::kIo, request.url, "status {}: {}", answer.status,
                      quote(to_valid_utf8(answer.body.substr(0, 300))));
    std::this_thread::sleep_for(std::chrono::milliseconds(500 << attempt));
  }
}

Result<Loglikelihood> echoed_loglikelihood(const Json& answer, size_t context, const std::string& place) {
  const Json* choice = first_choice(answer);
  const Json* logprobs = choice ? member(*choice, "logprobs") : nullptr;
  const Json* values = logprobs ? member(*logprobs, "token_logprobs") : nullptr;
  const Json* offsets = logprobs ? member(*logprobs, "text_offset") : nullptr;
  const Json* tops = logprobs ? member(*logprobs, "top_logprobs") : nullptr;
  if (!values || !offsets || !values->is_array() || !offsets->is_array() || values->size() != offsets->size())
    return error_of(
        Error::Kind::kUnsupported, place,
        "the server returns no log-probabilities of the prompt (echo with logprobs), which this task needs");
  Loglikelihood out;
  for (size_t i = 0; i < values->size(); ++i) {
    const Json& end = i + 1 < offsets->size() ? (*offsets)[i + 1] : Json(SIZE_MAX);
    if (!end.is_number_unsigned()) return error_at(place, "text_offset[{}] is not an offset", i + 1);
    // A token that crosses the end of the context belongs to the continuation.
    if (end.get<size_t>() <= context || !(*values)[i].is_number()) continue;
    const double value = (*values)[i].get<double>();
    out.logprob += value, ++out.tokens;
    if (tops && tops->is_array() && i < tops->size() && (*tops)[i].is_object())
      for (const auto& item : (*tops)[i].items())
        if (item.value().is_number() && item.value().get<double>() > value) out.is_greedy = false;
  }
  out.windows = 1;
  if (out.tokens == 0) return error_at(place, "no token of the continuation has a log-probability");
  return out;
}

Result<Loglikelihood> UrlModel::score(const std::string& context, const std::string& continuation) const {
  const std::string text = to_valid_utf8(context + continuation);
  MAKAR_TRY(const Json answer,
            post("/v1/completions",
                 {{"prompt", text}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 1}, {"temperature", 0}}));
  return echoed_loglikelihood(answer, count_code_points(to_valid_utf8(context)), o_.url);
}

Result<std::string> UrlModel::generate(const UntilRequest& request) const {
  const bool chat = !request.messages.is_null();
  Json body = {{"max_tokens", request.max_tokens},
               {"temperature", request.temperature},
               {"top_p", request.top_p},
               {"seed", request.seed}};
  // The answer is truncated below at the stop strings that are not sent.
  std::vector<std::string> stop(request.until.begin(),
                                request.until.begin() + std::min(kMaxStopStrings, std::ssize(request.until)));
  if (!stop.empty()) body["stop"] = stop;
  if (chat)
    body["messages"] = request.messages;
  else
    body["prompt"] = to_valid_utf8(request.prompt);
  MAKAR_TRY(const Json answer, post(chat ? "/v1/chat/completions" : "/v1/completions", std::move(body)));
  const Json* choice = first_choice(answer);
  const Json* message = choice && chat ? member(*choice, "message") : choice;
  const Json* text = message ? member(*message, chat ? "content" : "text") : nullptr;
  if (!text || !text->is_string()) return error_at(o_.url, "the answer has no text");
  std::string out = *text;
  for (const std::string& one : request.until)
    if (const size_t at = one.empty() ? std::string::npos : out.find(one); at != std::string::npos)
      out.resize(at);
  return out;
}

std::vector<Result<Loglikelihood>> UrlModel::loglikelihood(std::span<const LikelihoodRequest> requests) {
  return in_parallel<Loglikelihood>(requests.size(), o_.parallel, [&](size_t i) -> Result<Loglikelihood> {
    if (!requests[i].messages.is_null())
      return error_of(Error::Kind::kUnsupported, o_.url,
                      "servers return no log-likelihoods of conversations; leave out --apply-chat-template");
    return score(requests[i].context, requests[i].continuation);
  });
}

std::vector<Result<Loglikelihood>> UrlModel::loglikelihood_rolling(std::span<const std::string> texts) {
  return in_parallel<Loglikelihood>(texts.size(), o_.parallel, [&](size_t i) { return score("", texts[i]); });
}

std::vector<Result<std::string>> UrlModel::generate_until(std::span<const UntilRequest> requests) {
  return in_parallel<std::string>(requests.size(), o_.parallel,
                                  [&](size_t i) { return generate(requests[i]); });
}

}  // namespace makar
