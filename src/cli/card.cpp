// makar card: a model card from a model's files and the results of its evaluations.
#include "eval/card.h"

#include <filesystem>

#include "base/file.h"
#include "cli/model_options.h"
#include "cli/model_path.h"
#include "cli/run.h"
#include "cli/text_io.h"

namespace makar {

int run_card(const std::vector<std::string>& arguments) {
  std::string model, name, ratings, manifest, output;
  std::vector<std::string> results;
  Options options("card",
                  "Write a model card: the model's files, how it was trained, scores of capabilities and "
                  "risks, and a rubric of twelve regulatory criteria, 0 to 4 points each.",
                  "makar card -m MODEL --results results/ --ratings ratings.csv -o CARD.md");
  declare_model(options, model, "MODEL");
  options.add("--name", &name, "name on the card; the name of the model folder if not set", "NAME");
  options.add("--results", &results, "result folders or files of makar eval; may be repeated", "PATH");
  options.add("--manifest", &manifest, "JSON file with an object of facts about data, compute and energy",
              "FILE");
  options.add("--ratings", &ratings,
              "CSV table of scores for the rubric, with the columns rater, system, point, score", "FILE");
  options.add("-o --output", &output, "write the card to this file instead of printing it", "FILE");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (model.empty()) return report(error_at("--model", "is required")), 2;
  CardInput input;
  input.model = resolve_model(model);
  input.name = name.empty() ? std::filesystem::path(input.model).filename().string() : name;
  for (const std::string& path : results) {
    auto result = read_evaluated_model(path);
    if (!result.ok()) return report(result.error());
    input.results.push_back(std::move(*result));
  }
  if (!manifest.empty()) {
    const auto text = read_file(manifest, size_t{16} << 20);
    if (!text.ok()) return report(text.error());
    auto parsed = parse_json(*text, manifest);
    if (!parsed.ok()) return report(parsed.error());
    if (!parsed->is_object())
      return report(error_at(manifest, "expected an object of facts, such as {{\"data\": \"...\"}}"));
    input.manifest = std::move(*parsed);
  }
  if (!ratings.empty()) {
    const auto rows = read_ratings(ratings);
    if (!rows.ok()) return report(rows.error());
    auto rubric = rate_systems(*rows);
    if (!rubric.ok()) return report(rubric.error());
    input.rubric = std::move(*rubric);
  }
  const auto card = model_card(input);
  if (!card.ok()) return report(card.error());
  if (output.empty()) return print_out(*card) ? 0 : 1;
  const Status written = write_file(output, *card);
  return written.ok() ? 0 : report(written.error());
}

}  // namespace makar
