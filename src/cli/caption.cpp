// makar caption: a sentence about each image, by a captioning model or a model that answers questions about
// images.
#include <fmt/format.h>

#include "base/trim.h"
#include "cli/generation_flags.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "llm/image_inputs.h"

namespace makar {
namespace {

Result<std::unique_ptr<TextGeneration>> begin_caption(Engine& engine, const LanguageModel& language,
                                                      const std::string& path, const std::string& prompt,
                                                      TextGenerationOptions o) {
  MAKAR_TRY(o.images, read_image_inputs(language, {path}));
  std::vector<int64_t> ids;
  if (language.places_images()) {
    ChatInput input;
    input.messages = Json::array({image_message(1, prompt)});
    input.add_generation_prompt = true;
    MAKAR_TRY(ids, encode_chat_with_images(language, input, *o.images));
  } else {
    MAKAR_TRY(ids, encode_with_images(language, language.spec().image_input ? prompt : "", *o.images));
  }
  return TextGeneration::begin(engine, language, std::move(ids), o);
}

}  // namespace

int run_caption(const std::vector<std::string>& arguments) {
  ModelOptions model;
  GenerationFlags flags;
  flags.generation.max_new_tokens = 64;
  std::vector<std::string> images;
  std::string prompt = "Describe this image in one sentence.";
  bool json = false;
  Options options("caption", "Describe images: one line per image.", "makar caption -m MODEL photo.jpg");
  model.declare(options);
  model.declare_device(options);
  model.declare_chat(options);
  options.group("Images");
  options.positional("IMAGE", &images, "one or more files: JPEG, PNG or WebP");
  options.add("-p --prompt", &prompt, "the question to a model that reads text and images, such as LLaVA",
              "TEXT");
  options.group("Output");
  options.add("--json --jsonl", &json, "print one {\"image\", \"caption\"} object per line");
  flags.declare(options);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status status = flags.check(options); !status.ok()) return report(status.error()), 2;
  const auto opened = open_on_device(model, flags.engine);
  if (!opened.ok()) return report(opened.error());
  Device& device = *opened->device;
  const LanguageModel* language = &opened->language;
  if (!language->spec().reads_images() || language->spec().head.kind != HeadKind::kCausalLm)
    return report(error_of(Error::Kind::kUnsupported, model.model,
                           "a {} does not describe images; captioning models and LLaVA do",
                           language->spec().architecture));
  if (!language->spec().image_input && options.given("--prompt"))
    warn("--prompt has no effect: this model takes no text besides the image");
  if (!language->has_tokenizer())
    return report(error_of(Error::Kind::kNotFound, model.model, "has no tokenizer"));
  if (const Status status = flags.prepare(*language, device); !status.ok()) return report(status.error());
  const auto engine_options = flags.engine_options(language->model());
  if (!engine_options.ok()) return report(engine_options.error()), 2;
  Engine engine(language->model(), device, *engine_options);
  flags.generation.fit = true;
  int code = 0;
  constexpr size_t kBatchSize = 8;
  for (size_t from = 0; from < images.size(); from += kBatchSize) {
    std::vector<Result<std::unique_ptr<TextGeneration>>> captions;
    const size_t to = std::min(images.size(), from + kBatchSize);
    for (size_t i = from; i < to; ++i)
      captions.push_back(begin_caption(engine, *language, images[i], prompt, flags.generation));
    for (size_t i = from; i < to; ++i) {
      auto& generation = captions[i - from];
      while (generation.ok() && !(*generation)->done() && engine.step()) {
      }
      const auto result =
          generation.ok() ? (*generation)->finish() : Result<TextGenerationResult>(generation.error());
      if (!result.ok()) {
        code = report(result.error());
        continue;
      }
      for (const GeneratedText& answer : result->answers) {
        const std::string text = trimmed(answer.text);
        const std::string line = json                ? dump({{"image", images[i]}, {"caption", text}})
                                 : images.size() > 1 ? images[i] + ": " + text
                                                     : text;
        if (!print_out(line + "\n")) return code;
      }
    }
  }
  return code;
}

}  // namespace makar
