// Any bytes as a study and as its ratings: values or located errors; a report and an export of what is valid.
#include "people/study_report.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(people_study) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto study = parse_study(text, "fuzz.jsonl");
  if (!study.ok())
    check(study.error().text().find("fuzz.jsonl") != std::string::npos, "an error names its file");
  static const Study kKnown = *parse_study(
      "{\"prompt\":\"q\",\"answers\":[\"a\",\"b\"]}\n{\"prompt\":\"q\",\"answers\":[\"a\"]}\n"
      "{\"prompt\":[{\"role\":\"user\",\"content\":\"q\"}],\"answers\":[\"a\",\"b\",\"c\"]}\n",
      "known.jsonl");
  const auto ratings = parse_ratings(text, kKnown, "fuzz.jsonl");
  if (!ratings.ok()) return 0;
  const Json report = study_report(kKnown, *ratings);
  check(report["ratings"] == ratings->size(), "every rating is counted");
  for (const auto& [name, system] : report["systems"].items())
    if (system.contains("win_rate"))
      check(system["win_rate"] >= 0 && system["win_rate"] <= 1, "a win rate is between 0 and 1");
  (void)preference_lines(kKnown, *ratings);
  (void)study_results(kKnown, *ratings).dump();
  return 0;
}
