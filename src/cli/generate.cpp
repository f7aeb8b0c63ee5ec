// makar generate: continue a prompt given as text or as token ids.
#include "infer/generate.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>

#include "cli/generate_command.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "llm/image_inputs.h"

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

// Prints the acceptance rate of speculative decoding.
void print_speculation(const TextGenerationResult& result, const TextGenerationOptions& o) {
  if (!o.speculation.draft_model && !o.speculation.lookup) return;
  fmt::print(stderr, "makar: speculative decoding: {} of {} drafted tokens accepted{}, {} steps\n",
             result.accepted_tokens, result.drafted_tokens,
             result.drafted_tokens > 0
                 ? fmt::format(" ({:.0f} %)", 100.0 * static_cast<double>(result.accepted_tokens) /
                                                  static_cast<double>(result.drafted_tokens))
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
  if (c.json) return print_out(dump(answer_json(*result, language, o.logprobs >= 0)) + "\n"), 0;
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
      fmt::print("{}\n", dump(token_json(token, language.tokenizer())));
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
      if (const Status expanded = o.images->expand_tokens(language.spec(), prompt); !expanded.ok())
        return report(expanded.error());
  }
  static_cast<Decoding&>(o) = c.flags.generation;
  o.engine = engine, o.stop = language.stop_ids();
  if (!c.tokens_given)
    o.max_new_tokens = fitting_tokens(language.spec(), engine.context, prompt.size(), o.max_new_tokens);
  if (c.flags.generation.mbr > 0)
    return report(error_at("--mbr", "compares texts; --ids gives token ids only")), 2;
  const auto answers = generate_all(language.model(), device, prompt, o);
  if (!answers.ok()) return report(answers.error());
  if (c.json) {
    Json out = {{"ids", answers->front()}};
    if (answers->size() > 1) out["answers"] = *answers;
    fmt::print("{}\n", out.dump());
    return 0;
  }
  for (const auto& ids : *answers) {
    const auto begin = decoder_prompt(language.model(), prompt).size();
    fmt::print("{}\n", fmt::join(ids.begin() + static_cast<int64_t>(begin), ids.end(), " "));
  }
  return 0;
}

// Checks that at most one prompt source is given (none: standard input), and no option that applies only to
// another source.
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

void declare_generate(Options& options, GenerateCommand& c) {
  c.model.declare_optional(options);
  c.model.declare_device(options);
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
  options.add("--jsonl", &c.jsonl,
              "read one request per line ({\"prompt\"} or {\"messages\"}) and print one JSON answer per "
              "line; a request "
              "without \"seed\" gets one derived from --seed and its line number");
  options.add("--parallel -np", &c.parallel, "--jsonl: maximum number of requests in a batch", "N");
  options.group("Watermark");
  options.add("--watermark-key", &c.watermark.key,
              "watermark: raise the logits of tokens selected by this secret key; see makar detect", "KEY");
  options.add("--watermark-share", &c.watermark.share, "share of the vocabulary that the key selects", "X");
  options.add("--watermark-delta", &c.watermark.delta, "value added to the logits of these tokens", "X");
  c.control.declare(options);
  c.flags.declare(options);
  c.rank.declare(options);
}

// Errors are bad usage.
Status check_generate(const Options& options, GenerateCommand& c) {
  MAKAR_RETURN_IF_ERROR(c.model.use_default());
  MAKAR_RETURN_IF_ERROR(c.flags.check(options));
  MAKAR_RETURN_IF_ERROR(check_prompt(options, c));
  if (!(c.watermark.share > 0 && c.watermark.share < 1))
    return error_at("--watermark-share", "must be between 0 and 1, got {}", c.watermark.share);
  if (!(c.watermark.delta >= 0 && c.watermark.delta <= 100))
    return error_at("--watermark-delta", "must be 0 to 100, got {}", c.watermark.delta);
  MAKAR_RETURN_IF_ERROR(c.rank.check(c.flags));
  if (!c.rank.rules.empty() && (c.control.on() || !c.ids.empty()))
    return error_at("--rank-by", "cannot be combined with --control or --ids");
  MAKAR_RETURN_IF_ERROR(c.control.check());
  if (c.control.on() && (c.jsonl || !c.ids.empty() || !c.watermark.key.empty()))
    return error_at("--control", "cannot be combined with --jsonl, --ids or --watermark-key");
  return Done{};
}

// The prompt of --ids. Returns the exit code, as do the functions below.
int generate_from_ids(const LanguageModel& language, Device& device, const GenerateCommand& c) {
  const auto prompt = parse_ids(c.ids);
  if (!prompt.ok()) return report(prompt.error()), 2;
  const auto engine_options = c.flags.engine_options(language.model());
  if (!engine_options.ok()) return report(engine_options.error()), 2;
  return run_ids(language, device, *prompt, *engine_options, c);
}

// One prompt: the arguments, --prompt, --file or standard input.
int generate_from_text(Engine& engine, const LanguageModel& language, GenerateCommand& c) {
  std::string text = c.prompt.empty() ? fmt::format("{}", fmt::join(c.words, " ")) : c.prompt;
  const bool captions = language.spec().is_encoder_decoder() && language.spec().reads_images();
  if (captions && c.images.empty())
    return report(error_at("--image", "is needed: a {} describes an image", language.spec().architecture)), 2;
  if (c.words.empty() && c.prompt.empty() && !captions) {
    const auto input = read_whole(c.files);
    if (!input.ok()) return report(input.error());
    text = *input;
  }
  if (c.control.on())
    return run_controlled(engine, language, text, c.chat, c.json, c.control, c.flags.generation);
  c.flags.generation.rank_prompt = user_turn(text);
  const auto prompt = encode_prompt(language, text, c.images, c, c.flags.generation);
  if (!prompt.ok()) return report(prompt.error());
  return run_once(engine, language, *prompt, c);
}

}  // namespace

int run_generate(const std::vector<std::string>& arguments) {
  GenerateCommand c;
  Options options("generate", "Continue a prompt: greedily, by sampling, or by beam search.",
                  "makar generate -m MODEL \"Once upon a time\" -n 100 --temperature 0.8");
  declare_generate(options, c);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status checked = check_generate(options, c); !checked.ok()) return report(checked.error()), 2;
  c.tokens_given = options.given("--max-tokens");
  c.flags.generation.fit = !c.tokens_given;
  const auto opened = open_on_device(c.model, c.flags.engine);
  if (!opened.ok()) return report(opened.error());
  Device& device = *opened->device;
  const LanguageModel& language = opened->language;
  if (!language.spec().decoder)
    return report(error_of(Error::Kind::kUnsupported, c.model.model,
                           "{} does not generate text; see makar fill and makar embed",
                           language.spec().architecture));
  if (!c.ids.empty()) return generate_from_ids(language, device, c);
  if (!language.has_tokenizer())
    return report(error_of(Error::Kind::kNotFound, c.model.model, "has no tokenizer; give --ids"));
  if (const Status status = c.flags.prepare(language, device); !status.ok()) return report(status.error());
  if (const Status status = c.rank.open(device, c.flags.generation); !status.ok())
    return report(status.error());
  const auto engine_options = c.flags.engine_options(language.model());
  if (!engine_options.ok()) return report(engine_options.error()), 2;
  Engine engine(language.model(), device, *engine_options);
  if (c.jsonl) return run_lines(engine, language, c);
  return generate_from_text(engine, language, c);
}

}  // namespace makar
