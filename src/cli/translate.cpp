// makar translate and makar summarize: sequence-to-sequence models, by beam search.
#include <fmt/format.h>

#include "base/file.h"
#include "cli/alignment_plot.h"
#include "cli/generation_flags.h"
#include "cli/run.h"
#include "cli/text_io.h"

namespace makar {
namespace {

int run_seq2seq(Options& options, const std::vector<std::string>& arguments) {
  ModelOptions model;
  GenerationFlags flags;
  flags.generation.beams = 4;
  std::vector<std::string> words, files;
  std::string prefix, alignment;
  bool lines = false;
  model.declare(options);
  model.declare_device(options);
  options.group("Text");
  options.positional("TEXT", &words, "the text; standard input if there is none").required = false;
  options.add("-f --file", &files, "read the text from a file", "FILE");
  options.add("--lines", &lines, "read one text per line and print one answer per line");
  options.add("--prefix", &prefix, "text to put before each input, such as 'summarize: ' for T5", "TEXT");
  options.group("Output");
  options.add(
      "--alignment", &alignment,
      "draw the attention of the answer to the source as an SVG image; the last answer, if there are several",
      "FILE");
  flags.declare(options);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status status = flags.check(options); !status.ok()) return report(status.error()), 2;
  const auto opened = open_on_device(model, flags.engine);
  if (!opened.ok()) return report(opened.error());
  Device& device = *opened->device;
  const LanguageModel* language = &opened->language;
  if (!language->spec().encoder || !language->spec().decoder)
    return report(error_of(
        Error::Kind::kUnsupported, model.model,
        "this command needs a sequence-to-sequence model (T5, BART, Marian), this is a {}; see makar "
        "chat",
        language->spec().architecture));
  if (const Status status = flags.prepare(*language, device); !status.ok()) return report(status.error());
  const auto engine_options = flags.engine_options(language->model());
  if (!engine_options.ok()) return report(engine_options.error()), 2;
  Engine engine(language->model(), device, *engine_options);
  flags.generation.fit = true;
  const auto answer = [&](const std::string& text) -> Status {
    MAKAR_TRY(auto prompt, language->encode(prefix + text));
    const std::vector<int64_t> source = alignment.empty() ? std::vector<int64_t>() : prompt;
    MAKAR_TRY(const TextGenerationResult result,
              generate_text(engine, *language, std::move(prompt), flags.generation));
    for (const GeneratedText& one : result.answers) print_out(one.text + "\n");
    if (!alignment.empty() && !result.answers.empty()) {
      MAKAR_TRY(const std::string plot,
                alignment_plot(*language, device, source, result.answers.back().ids()));
      return write_file(alignment, plot);
    }
    return Done{};
  };
  Status status = Done{};
  if (!words.empty()) {
    status = answer(fmt::format("{}", fmt::join(words, " ")));
  } else if (!lines) {
    const auto text = read_whole(files);
    status = text.ok() ? answer(*text) : Status(text.error());
  } else {
    Status line_status = Done{};
    status = each_line_batch(files, [&](const std::vector<std::string_view>& batch, size_t) {
      for (const auto line : batch)
        if (line_status = answer(std::string(line)); !line_status.ok()) return false;
      return true;
    });
    if (status.ok()) status = line_status;
  }
  return status.ok() ? 0 : report(status.error());
}

}  // namespace

int run_translate(const std::vector<std::string>& arguments) {
  Options options("translate", "Translate with a sequence-to-sequence model.",
                  "makar translate -m MODEL \"How are you?\"");
  return run_seq2seq(options, arguments);
}

int run_summarize(const std::vector<std::string>& arguments) {
  Options options("summarize", "Summarize with a sequence-to-sequence model.",
                  "makar summarize -m MODEL --file article.txt");
  return run_seq2seq(options, arguments);
}

}  // namespace makar
