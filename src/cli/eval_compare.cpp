// makar eval compare: results of two or more models, with tests of their differences.
#include "base/file.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "eval/compare.h"

namespace makar {

int run_eval_compare(const std::vector<std::string>& arguments) {
  std::vector<std::string> paths;
  std::string plot;
  bool json = false;
  ResampleOptions resample;
  int64_t seed = 12345;
  Options options("eval compare",
                  "Compare results of makar eval: differences from the first, with intervals and p-values. "
                  "With samples of "
                  "the same documents (--log-samples) the tests are paired.",
                  "makar eval compare base/ tuned/ --svg scores.svg");
  options.positional("RESULTS", &paths, "folders with results.json, or results files; two or more");
  options.add("--svg", &plot, "write a chart of the scores with their intervals", "FILE");
  options.add("--resamples", &resample.resamples, "resamples of the paired bootstrap", "N");
  options.add("--seed", &seed, "seed for the bootstrap", "S");
  options.add("--json", &json, "print the comparison as JSON");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (paths.size() < 2)
    return report(error_at("RESULTS", "needs two or more results, got {}", paths.size())), 2;
  if (resample.resamples < 1 || resample.resamples > 1'000'000)
    return report(error_at("--resamples", "must be 1 to 1000000, got {}", resample.resamples)), 2;
  resample.seed = static_cast<uint64_t>(seed);
  std::vector<EvaluatedModel> models;
  for (const std::string& path : paths) {
    auto model = read_evaluated_model(path);
    if (!model.ok()) return report(model.error());
    models.push_back(std::move(*model));
  }
  const auto scores = compare_models(models, resample);
  if (!scores.ok()) return report(scores.error());
  if (!plot.empty())
    if (const Status written = write_file(plot, comparison_svg(models, *scores)); !written.ok())
      return report(written.error());
  return print_out(json ? dump(comparison_json(models, *scores)) + "\n" : comparison_table(models, *scores))
             ? 0
             : 1;
}

}  // namespace makar
