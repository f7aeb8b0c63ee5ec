// makar generate: continue a prompt given as text or as token ids.
#include "infer/generate.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>

#include "base/json.h"
#include "cli/generate_controlled.h"
#include "cli/model_options.h"
#include "cli/rank_flags.h"
#include "cli/run.h"
#include "cli/tokenizer_options.h"
#include "eval/watermark.h"
#include "llm/image_inputs.h"

namespace makar {
namespace {

struct GenerateCommand {
  ModelOptions model;
  GenerationFlags flags;
  std::vector<std::string> words, files, images;
  std::string ids, prompt;
  int64_t parallel = 32;  // requests of --jsonl in a batch
  bool json = false, jsonl = false, chat = false, parse_special = false;
  bool tokens_given = false;  // --max-tokens is not the default
  WatermarkOptions watermark;
  ControlFlags control;
  RankFlags rank;
};

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

Json user_turn(const std::string& text) { return Json::array({{{"role", "user"}, {"content", text}}}); }

Result<std::vector<int64_t>> encode_prompt(const LanguageModel& language, const std::string& text,
                                           const GenerateCommand& c) {
  if (!c.chat) return language.encode(text, c.parse_special);
  ChatInput input;
  input.messages = user_turn(text);
  input.add_generation_prompt = true;
  return language.encode_chat(input);
}

// The same with images, which become part of the options.
Result<std::vector<int64_t>> encode_images(const LanguageModel& language, const std::string& text,
                                           const std::vector<std::string>& paths, const GenerateCommand& c,
                                           TextGenerationOptions& o) {
  if (paths.empty()) return encode_prompt(language, text, c);
  MAKAR_TRY(o.images, read_image_inputs(language, paths));
  if (!c.chat) return encode_with_images(language, text, *o.images);
  ChatInput input;
  input.messages = Json::array({image_message(paths.size(), text)});
  input.add_generation_prompt = true;
  return encode_chat_with_images(language, input, *o.images);
}

// The watermark of --watermark-key, which starts from the last token of the prompt.
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
            {"drafted", result.drafted},
            {"accepted", result.accepted}}}};
}

// A list of file names.
Result<std::vector<std::string>> image_paths(const Json& value) {
  std::vector<std::string> paths;
  if (!value.is_array()) return error_at("images", "expected a list of files, found {}", value.dump());
  for (const Json& path : value) {
    if (!path.is_string()) return error_at("images", "expected a list of files, found {}", value.dump());
    paths.push_back(path.get<std::string>());
  }
  return paths;
}

// One request per line: {"prompt"} or {"messages"}, with images, max_tokens, stop and the sampler's keys.
Result<std::unique_ptr<TextGeneration>> begin_line(const std::string& line, Engine& engine,
                                                   const LanguageModel& language, const GenerateCommand& c,
                                                   bool& logprobs) {
  MAKAR_TRY(const Json request, parse_json(line, "request"));
  if (!request.is_object()) return error_at("request", "expected an object with \"prompt\" or \"messages\"");
  TextGenerationOptions o = c.flags.generation;
  o.fit = true;
  std::vector<int64_t> prompt;
  std::vector<std::string> images;
  if (request.contains("images")) {
    MAKAR_TRY(images, image_paths(request["images"]));
    if (request.contains("messages")) return error_at("images", "need \"prompt\", not \"messages\"");
    if (!request.contains("prompt")) {
      MAKAR_TRY(prompt, encode_images(language, "", images, c, o));
    }
  }
  for (const auto& [key, value] : request.items()) {
    if (key == "images") continue;
    if (key == "prompt" && value.is_string()) {
      MAKAR_TRY(prompt, encode_images(language, value.get<std::string>(), images, c, o));
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
      MAKAR_TRY(o.early, parse_early_stop(value.is_string() ? value.get<std::string>() : value.dump()));
    } else if (key == "mbr_metric" && value.is_string()) {
      MAKAR_CHECK_OK(read_mbr_metric(value.get<std::string>(), key, o));
    } else if (key == "mbr" && value.is_number_integer()) {
      o.mbr = value.get<int64_t>();
    } else {
      MAKAR_TRY(const bool known, read_decoding_option(o, key, value));
      if (!known)
        return error_at(key, "is not a known key of a request, or has the wrong type: {}", value.dump());
    }
  }
  MAKAR_CHECK_OK(check_generation(o));
  if (prompt.empty() && !o.images) return error_at("request", "expected \"prompt\" or \"messages\"");
  logprobs = o.logprobs >= 0;
  MAKAR_CHECK_OK(add_watermark(c, prompt, o));
  return TextGeneration::begin(engine, language, std::move(prompt), o);
}

// Generates answers for all lines that have arrived in one batch; prints them in input order.
bool answer_lines(const std::vector<std::string_view>& lines, size_t first, Engine& engine,
                  const LanguageModel& language, const GenerateCommand& c) {
  struct LineRequest {
    Result<std::unique_ptr<TextGeneration>> generation;
    bool logprobs;
  };
  std::vector<LineRequest> requests;
  for (const std::string_view line : lines) {
    bool logprobs = false;
    auto generation = begin_line(std::string(line), engine, language, c, logprobs);
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
    if (!print_out(answer.ok() ? answer->dump() + "\n" : error_line(answer.error(), first + i))) return false;
  }
  return true;
}

int run_lines(Engine& engine, const LanguageModel& language, const GenerateCommand& c) {
  const auto together = static_cast<size_t>(c.parallel);
  const Status status = each_lines(c.files, [&](const std::vector<std::string_view>& lines, size_t first) {
    for (size_t i = 0; i < lines.size(); i += together) {
      const auto end = lines.begin() + static_cast<int64_t>(std::min(lines.size(), i + together));
      if (!answer_lines({lines.begin() + static_cast<int64_t>(i), end}, first + i, engine, language, c))
        return false;
    }
    return true;
  });
  return status.ok() ? 0 : report(status.error());
}

// Prints the acceptance rate of speculative decoding.
void print_speculation(const TextGenerationResult& result, const TextGenerationOptions& o) {
  if (!o.speculation.draft_model && !o.speculation.lookup) return;
  fmt::print(stderr, "makar: speculative decoding: {} of {} drafted tokens accepted{}, {} steps\n",
             result.accepted, result.drafted,
             result.drafted > 0 ? fmt::format(" ({:.0f} %)", 100.0 * static_cast<double>(result.accepted) /
                                                                 static_cast<double>(result.drafted))
                                : "",
             result.steps);
}

int run_once(Engine& engine, const LanguageModel& language, const std::vector<int64_t>& prompt,
             GenerateCommand& c) {
  TextGenerationOptions& o = c.flags.generation;
  if (const Status added = add_watermark(c, prompt, o); !added.ok()) return report(added.error()), 2;
  const bool stream = !c.json && o.answers == 1 && o.logprobs < 0;
  if (stream) o.on_text = [](int64_t, const std::string& text) { return print_out(text); };
  const auto result = generate_text(engine, language, prompt, o);
  if (!result.ok()) {
    if (stream) print_out("\n");
    return report(result.error());
  }
  if (c.json) return print_out(answer_json(*result, language, o.logprobs >= 0).dump() + "\n"), 0;
  if (stream) print_out("\n");
  if (const std::string why = explain_empty(*result, language, c.chat); !why.empty())
    fmt::print(stderr, "makar: {}\n", why);
  print_speculation(*result, o);
  if (stream) return 0;
  for (size_t i = 0; i < result->answers.size(); ++i) {
    const GeneratedText& answer = result->answers[i];
    if (result->answers.size() > 1)
      fmt::print("--- {}{}\n", i + 1, answer.score != 0 ? fmt::format(" ({:.4f})", answer.score) : "");
    fmt::print("{}\n", answer.text);
    if (o.logprobs < 0) continue;
    for (const GeneratedToken& token : answer.tokens)
      fmt::print("{}\n", token_json(token, language.tokenizer()).dump());
  }
  return 0;
}

// Token ids in, token ids out; needs no tokenizer.
int run_ids(const LanguageModel& language, Device& device, std::vector<int64_t> prompt,
            const EngineOptions& engine, const GenerateCommand& c) {
  GenerateOptions o;
  if (!c.images.empty()) {
    const auto images = read_image_inputs(language, c.images);
    if (!images.ok()) return report(images.error());
    o.images = *images;
    if (language.spec().image_input)
      if (const Status placed = o.images->place(language.spec(), prompt); !placed.ok())
        return report(placed.error());
  }
  static_cast<Decoding&>(o) = c.flags.generation;
  o.engine = engine, o.stop = language.stop_ids();
  if (!c.tokens_given)
    o.max_new_tokens = fitting_tokens(language.spec(), engine.context, prompt.size(), o.max_new_tokens);
  if (c.flags.generation.mbr > 0)
    return report(error_at("--mbr", "compares texts; --ids gives token ids only")), 2;
  const auto all = generate_all(language.model(), device, prompt, o);
  if (!all.ok()) return report(all.error());
  if (c.json) {
    Json out = {{"ids", all->front()}};
    if (all->size() > 1) out["answers"] = *all;
    fmt::print("{}\n", out.dump());
    return 0;
  }
  for (const auto& ids : *all) {
    const auto begin = decoder_prompt(language.model(), prompt).size();
    fmt::print("{}\n", fmt::join(ids.begin() + static_cast<int64_t>(begin), ids.end(), " "));
  }
  return 0;
}

// Checks that exactly one prompt source is given, and no option that applies only to another source.
Status check_prompt(const Options& options, const GenerateCommand& c) {
  const int sources = !c.words.empty() + !c.prompt.empty() + !c.files.empty() + !c.ids.empty();
  if (sources > 1)
    return error_at("prompt", "give one of PROMPT, --prompt, --file and --ids, not {}", sources);
  if (c.jsonl && (!c.words.empty() || !c.prompt.empty() || !c.ids.empty()))
    return error_at("--jsonl", "reads requests from --file or standard input; it takes no prompt");
  if (c.parallel < 1 || c.parallel > 4096)
    return error_at("--parallel", "expected 1 to 4096, got {}", c.parallel);
  if (options.given("--parallel") && !c.jsonl) warn("--parallel has no effect: set --jsonl");
  if (!c.images.empty() && c.jsonl)
    return error_at("--image", "does not apply to --jsonl; a request names its files in \"images\"");
  if (!c.images.empty() && c.control.on()) return error_at("--image", "cannot be combined with --control");
  if (!c.images.empty() && c.parse_special)
    warn("--parse-special has no effect: with --image, only the image token is parsed");
  if (!c.model.chat_template.empty() && !c.chat && !c.jsonl)
    warn("--chat-template has no effect: set --chat to send the prompt as a message");
  if (options.given("--parse-special") && c.chat)
    warn("--parse-special has no effect: with --chat, messages are always plain text");
  return Done{};
}

}  // namespace

int run_generate(const std::vector<std::string>& arguments) {
  GenerateCommand c;
  Options options("generate", "Continue a prompt: greedily, by sampling, or by beam search.",
                  "makar generate -m MODEL \"Once upon a time\" -n 100 --temperature 0.8");
  c.model.declare_optional(options);
  declare_device(options, c.model.device);
  c.model.declare_chat(options);
  options.group("Prompt");
  options.positional("PROMPT", &c.words, "the prompt; standard input if there is none").required = false;
  options.add("-p --prompt", &c.prompt, "the same as the argument PROMPT", "TEXT");
  options.add("-f --file", &c.files, "read the prompt, or the requests of --jsonl, from a file", "FILE");
  options.add("--image", &c.images,
              "image for a model that reads images; may be repeated. Put <image> in the prompt where each "
              "image belongs; otherwise the images come first",
              "FILE");
  options.add("--chat", &c.chat, "send the prompt as a user message through the model's chat template");
  options.add("--ids", &c.ids, "the prompt as token ids, such as 5,17,9; prints token ids", "LIST");
  options.add("--parse-special", &c.parse_special,
              "parse special tokens in the prompt; otherwise they are plain text");
  options.group("Output");
  options.add("--json", &c.json, "print one JSON object");
  options.add(
      "--jsonl", &c.jsonl,
      "read one request per line ({\"prompt\"} or {\"messages\"}) and print one JSON answer per line");
  options.add("--parallel -np", &c.parallel, "--jsonl: maximum number of requests in a batch", "N");
  options.group("Watermark");
  options.add("--watermark-key", &c.watermark.key,
              "watermark: raise the logits of tokens selected by this secret key; see makar detect", "KEY");
  options.add("--watermark-share", &c.watermark.share, "share of the vocabulary that the key selects", "X");
  options.add("--watermark-delta", &c.watermark.delta, "value added to the logits of these tokens", "X");
  c.control.declare(options);
  c.flags.declare(options);
  c.rank.declare(options);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status status = c.model.use_default(); !status.ok()) return report(status.error()), 2;
  if (const Status status = c.flags.check(options); !status.ok()) return report(status.error()), 2;
  if (const Status status = check_prompt(options, c); !status.ok()) return report(status.error()), 2;
  if (!(c.watermark.share > 0 && c.watermark.share < 1))
    return report(error_at("--watermark-share", "must be between 0 and 1, got {}", c.watermark.share)), 2;
  if (!(c.watermark.delta >= 0 && c.watermark.delta <= 100))
    return report(error_at("--watermark-delta", "must be 0 to 100, got {}", c.watermark.delta)), 2;
  if (const Status status = c.rank.check(c.flags); !status.ok()) return report(status.error()), 2;
  if (!c.rank.rules.empty() && (c.control.on() || !c.ids.empty()))
    return report(error_at("--rank-by", "works without --control and --ids")), 2;
  if (const Status status = c.control.check(); !status.ok()) return report(status.error()), 2;
  if (c.control.on() && (c.jsonl || !c.ids.empty() || !c.watermark.key.empty()))
    return report(error_at("--control", "works on one prompt, without --jsonl, --ids and --watermark-key")),
           2;
  c.tokens_given = options.given("--max-tokens");
  c.flags.generation.fit = !c.tokens_given;
  const auto opened = open_on_device(c.model, c.flags.engine);
  if (!opened.ok()) return report(opened.error());
  Device& device = *opened->device;
  const LanguageModel* language = &opened->language;
  if (!language->spec().decoder)
    return report(error_of(Error::Kind::kUnsupported, c.model.model,
                           "{} does not generate text; see makar fill and makar embed",
                           language->spec().architecture));
  if (!c.ids.empty()) {
    const auto prompt = parse_ids(c.ids);
    if (!prompt.ok()) return report(prompt.error()), 2;
    const auto engine_options = c.flags.engine_options(language->model());
    if (!engine_options.ok()) return report(engine_options.error()), 2;
    return run_ids(*language, device, *prompt, *engine_options, c);
  }
  if (!language->has_tokenizer())
    return report(error_of(Error::Kind::kNotFound, c.model.model, "has no tokenizer; give --ids"));
  if (const Status status = c.flags.prepare(*language, device); !status.ok()) return report(status.error());
  if (const Status status = c.rank.open(device, c.flags.generation); !status.ok())
    return report(status.error());
  const auto engine_options = c.flags.engine_options(language->model());
  if (!engine_options.ok()) return report(engine_options.error()), 2;
  Engine engine(language->model(), device, *engine_options);
  if (c.jsonl) return run_lines(engine, *language, c);
  std::string text = c.prompt.empty() ? fmt::format("{}", fmt::join(c.words, " ")) : c.prompt;
  const bool describes = language->spec().crosses() && language->spec().reads_images();
  if (describes && c.images.empty())
    return report(error_at("--image", "is needed: a {} describes an image", language->spec().architecture)),
           2;
  if (c.words.empty() && c.prompt.empty() && !describes) {
    const auto all = read_whole(c.files);
    if (!all.ok()) return report(all.error());
    text = *all;
  }
  if (c.control.on())
    return run_controlled(engine, *language, text, c.chat, c.json, c.control, c.flags.generation);
  c.flags.generation.rank_prompt = user_turn(text);
  const auto prompt = encode_images(*language, text, c.images, c, c.flags.generation);
  if (!prompt.ok()) return report(prompt.error());
  return run_once(engine, *language, *prompt, c);
}

}  // namespace makar
