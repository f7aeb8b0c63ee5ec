// makar judge people: the ratings of a study, as a report, as preference data and as results.
#include <fmt/format.h>

#include "base/file.h"
#include "base/quote.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "people/study_report.h"

namespace makar {
namespace {

std::string figure_of(const Json& value) {
  return value.is_number() ? fmt::format("{:.4f}", value.get<double>()) : "-";
}

std::string report_text(const Json& r, const std::vector<std::string>& scales) {
  std::string out = fmt::format("{} items, {} rated; {} ratings by {} raters\n", r["items"].dump(),
                                r["rated"].dump(), r["ratings"].dump(), r["raters"].dump());
  const Json& a = r["agreement"];
  out += fmt::format("agreement: kappa {}, equal verdicts {}, kappa of scales {}\n", figure_of(a["kappa"]),
                     figure_of(a["equal_share"]), figure_of(a["scale_kappa"]));
  for (const auto& [name, row] : r["systems"].items()) {
    out += fmt::format("{}: {} wins, {} ties, {} losses", name, row["wins"].dump(), row["ties"].dump(),
                       row["losses"].dump());
    if (row.contains("win_rate"))
      out += fmt::format(", win rate {} ({} to {})", figure_of(row["win_rate"]),
                         figure_of(row["interval"]["low"]), figure_of(row["interval"]["high"]));
    for (const std::string& scale : scales)
      if (row.contains(scale)) out += fmt::format(", {} {:.2f}", scale, row[scale].get<double>());
    out += "\n";
  }
  for (const Json& one : r["critiques"])
    out += fmt::format("critique of item {} by {}: {}\n", one["item"].dump(), one["rater"].get<std::string>(),
                       quote(one["text"].get<std::string>()));
  return out;
}

}  // namespace

int run_judge_people(const std::vector<std::string>& arguments) {
  std::string path, preferences, critiques, qualities, results;
  bool json = false;
  Options options("judge people",
                  "Report the ratings that people gave to the answers of a study on the page of makar serve: "
                  "agreement, win rates and "
                  "scales; the ratings are in NAME.ratings.jsonl next to the study.",
                  "makar judge people ratings/study.jsonl --preferences pairs.jsonl --output results.json");
  Options::Option& study_option = options.add("--study", &path, "the study, a JSONL file of items", "FILE");
  study_option.required = true, study_option.position = "STUDY";
  options.add("--preferences", &preferences, "write pairs that makar dpo and makar reward read", "FILE");
  options.add("--critiques", &critiques,
              "write the critiques of items with one answer, which makar data feedback reads", "FILE");
  options.add("--ratings", &qualities, "write the scales of answers, which makar reward quality reads",
              "FILE");
  options.add("--output", &results, "write a results file that makar eval compare reads", "FILE");
  options.add("--json", &json, "print the report as JSON");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  const auto study = read_study(path);
  if (!study.ok()) return report(study.error());
  const auto ratings = read_ratings_of(path, *study);
  if (!ratings.ok()) return report(ratings.error());
  const auto write = [](const std::string& file, const std::string& text) {
    return file.empty() ? Status(Done{}) : write_file(file, text);
  };
  for (const Status& written :
       {write(preferences, preference_lines(*study, *ratings)),
        write(critiques, critique_lines(*study, *ratings)), write(qualities, quality_lines(*study, *ratings)),
        write(results, study_results(*study, *ratings).dump(2) + "\n")})
    if (!written.ok()) return report(written.error());
  const Json result = study_report(*study, *ratings);
  return print_out(json ? result.dump() + "\n" : report_text(result, scales_of(*study))) ? 0 : 1;
}

}  // namespace makar
