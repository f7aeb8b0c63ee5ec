// makar generate --jsonl: requests from lines of JSON, answered in batches.
#include <fmt/format.h>

#include "base/json.h"
#include "cli/generate_command.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "llm/image_inputs.h"

namespace makar {

Json user_turn(const std::string& text) { return Json::array({{{"role", "user"}, {"content", text}}}); }

Result<std::vector<int64_t>> encode_prompt(const LanguageModel& language, const std::string& text,
                                           const std::vector<std::string>& image_paths,
                                           const GenerateCommand& c, TextGenerationOptions& o) {
  if (!image_paths.empty()) {
    MAKAR_TRY(o.images, read_image_inputs(language, image_paths));
    if (!c.chat) return encode_with_images(language, text, *o.images);
  }
  if (!c.chat) return language.encode(text, c.parse_special);
  ChatInput input;
  input.messages = o.images ? Json::array({image_message(image_paths.size(), text)}) : user_turn(text);
  input.add_generation_prompt = true;
  return o.images ? encode_chat_with_images(language, input, *o.images) : language.encode_chat(input);
}

Status add_watermark(const GenerateCommand& c, const std::vector<int64_t>& prompt, TextGenerationOptions& o) {
  if (c.watermark.key.empty() || prompt.empty()) return Done{};
  if (o.constraint) return error_at("--watermark-key", "cannot be combined with a grammar");
  o.constraint = std::make_shared<WatermarkConstraint>(Watermark(c.watermark), prompt.back());
  return Done{};
}

Json answer_json(const TextGenerationResult& result, const LanguageModel& language, bool logprobs) {
  Json answers = Json::array();
  for (const GeneratedText& answer : result.answers) {
    Json ids = Json::array(), details = Json::array();
    for (const GeneratedToken& token : answer.tokens) {
      ids.push_back(token.id);
      if (logprobs) details.push_back(token_json(token, language.tokenizer()));
    }
    Json one = {{"text", answer.text}, {"ids", std::move(ids)}, {"finish_reason", name(answer.finish)}};
    if (logprobs) one["logprobs"] = std::move(details);
    answers.push_back(std::move(one));
  }
  return {{"answers", std::move(answers)},
          {"usage",
           {{"prompt_tokens", result.prompt_tokens},
            {"steps", result.steps},
            {"drafted", result.drafted_tokens},
            {"accepted", result.accepted_tokens}}}};
}

namespace {

// The file names in the "images" of a request.
Result<std::vector<std::string>> image_paths(const Json& value) {
  std::vector<std::string> paths;
  if (!value.is_array()) return error_at("images", "expected a list of files, found {}", value.dump());
  for (const Json& path : value) {
    if (!path.is_string()) return error_at("images", "expected a list of files, found {}", value.dump());
    paths.push_back(path.get<std::string>());
  }
  if (paths.empty()) return error_at("images", "expected at least one file");
  return paths;
}

// The seed of a line whose request has none: --seed for the first line, and a seed derived from it for each
// other line, independent of the batch. Answer i of a line has its seed + i; the distance between lines
// (2^64 / golden ratio) keeps these ranges apart.
uint64_t seed_of_line(uint64_t seed, size_t number) { return seed + (number - 1) * 0x9e3779b97f4a7c15; }

// One request per line: {"prompt"} or {"messages"}, with images, max_tokens, stop and the sampler's keys.
Result<std::unique_ptr<TextGeneration>> begin_line(const std::string& line, size_t number, Engine& engine,
                                                   const LanguageModel& language, const GenerateCommand& c,
                                                   bool& logprobs) {
  MAKAR_TRY(const Json request, parse_json(line, "request"));
  if (!request.is_object()) return error_at("request", "expected an object with \"prompt\" or \"messages\"");
  TextGenerationOptions o = c.flags.generation;
  o.fit = true;
  o.sampler.seed = seed_of_line(o.sampler.seed, number);
  std::vector<int64_t> prompt;
  std::vector<std::string> images;
  if (request.contains("prompt") && request.contains("messages"))
    return error_at("request", "give \"prompt\" or \"messages\", not both");
  if (request.contains("images")) {
    MAKAR_TRY(images, image_paths(request["images"]));
    if (request.contains("messages")) return error_at("images", "need \"prompt\", not \"messages\"");
    if (!request.contains("prompt")) {
      MAKAR_TRY(prompt, encode_prompt(language, "", images, c, o));
    }
  }
  for (const auto& [key, value] : request.items()) {
    if (key == "images") continue;
    if (key == "prompt" && value.is_string()) {
      MAKAR_TRY(prompt, encode_prompt(language, value.get<std::string>(), images, c, o));
      o.rank_prompt = user_turn(value.get<std::string>());
    } else if (key == "messages") {
      ChatInput input;
      input.messages = value, input.add_generation_prompt = true;
      o.rank_prompt = value;
      MAKAR_TRY(prompt, language.encode_chat(input));
    } else if (key == "stop" && (value.is_string() || value.is_array())) {
      o.stop.clear();
      for (const Json& stop : value.is_string() ? Json::array({value}) : value) {
        if (!stop.is_string()) return error_at("stop", "expected strings, found {}", stop.dump());
        o.stop.push_back(stop.get<std::string>());
      }
    } else if (key == "early_stopping") {
      MAKAR_TRY(o.early_stop, parse_early_stop(value.is_string() ? value.get<std::string>() : value.dump()));
    } else if (key == "mbr_metric" && value.is_string()) {
      MAKAR_RETURN_IF_ERROR(read_mbr_metric(value.get<std::string>(), key, o));
    } else if (key == "mbr" && value.is_number_integer()) {
      o.mbr = value.get<int64_t>();
    } else {
      MAKAR_TRY(const bool known, read_decoding_option(o, key, value));
      if (!known)
        return error_at(key, "is not a known key of a request, or has the wrong type: {}", value.dump());
    }
  }
  MAKAR_RETURN_IF_ERROR(check_generation(o));
  if (prompt.empty() && !o.images) return error_at("request", "expected \"prompt\" or \"messages\"");
  logprobs = o.logprobs >= 0;
  MAKAR_RETURN_IF_ERROR(add_watermark(c, prompt, o));
  return TextGeneration::begin(engine, language, std::move(prompt), o);
}

// Answers the requests of `lines` in one batch and prints the answers in input order. `first`: the number of
// the first line. False if the output failed.
bool answer_lines(const std::vector<std::string_view>& lines, size_t first, Engine& engine,
                  const LanguageModel& language, const GenerateCommand& c) {
  struct LineRequest {
    Result<std::unique_ptr<TextGeneration>> generation;
    bool logprobs;
  };
  std::vector<LineRequest> requests;
  for (const std::string_view line : lines) {
    bool logprobs = false;
    auto generation = begin_line(std::string(line), first + requests.size(), engine, language, c, logprobs);
    requests.push_back({std::move(generation), logprobs});
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto answer = [&]() -> Result<Json> {
      if (!requests[i].generation.ok()) return requests[i].generation.error();
      TextGeneration& generation = **requests[i].generation;
      while (!generation.done() && engine.step()) {
      }
      MAKAR_TRY(const TextGenerationResult result, generation.finish());
      return answer_json(result, language, requests[i].logprobs);
    }();
    if (!print_out(answer.ok() ? dump(*answer) + "\n" : error_line(answer.error(), first + i))) return false;
  }
  return true;
}

}  // namespace

int run_lines(Engine& engine, const LanguageModel& language, const GenerateCommand& c) {
  const auto batch_size = static_cast<size_t>(c.parallel);
  const Status status =
      each_line_batch(c.files, [&](const std::vector<std::string_view>& lines, size_t first) {
        for (size_t i = 0; i < lines.size(); i += batch_size) {
          const auto end = lines.begin() + static_cast<int64_t>(std::min(lines.size(), i + batch_size));
          if (!answer_lines({lines.begin() + static_cast<int64_t>(i), end}, first + i, engine, language, c))
            return false;
        }
        return true;
      });
  return status.ok() ? 0 : report(status.error());
}

}  // namespace makar
