// makar merge: an adapter folded into its base, as a model folder.
#include <fmt/format.h>

#include "cli/run.h"
#include "models/adapter.h"
#include "train/finish.h"

namespace makar {

int run_merge(const std::vector<std::string>& arguments) {
  std::string base, adapter, out;
  int64_t threads = 0;
  Options options("merge", "Folds a PEFT adapter into its base model.",
                  "makar merge -m base --lora run -o merged");
  options.add("-m --base-model --model", &base, "the base's folder", "DIR").required = true;
  options.add("--lora --adapter --lora-model-dir", &adapter, "the adapter's folder", "DIR").required = true;
  options.add("-o --output-dir --out", &out, "the folder to write", "DIR").required = true;
  options.add("-t --threads", &threads, "0: one for each core", "N");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  ThreadPool pool(static_cast<int>(std::clamp<int64_t>(threads, 0, 256)));
  const auto loaded = load_model(base, {true});
  if (!loaded.ok()) return report(loaded.error());
  const auto config = load_adapter(*loaded, adapter, pool);
  if (!config.ok()) return report(config.error());
  merge_adapter(*loaded, pool);
  if (const Status s = save_model(out, *loaded->model, *loaded->family); !s.ok()) return report(s.error());
  if (const Status s = copy_tokenizer_files(base, out); !s.ok()) return report(s.error());
  fmt::print("{}: {} with the adapter of rank {} folded in\n", out, loaded->model->spec().architecture,
             config->rank);
  return 0;
}

}  // namespace makar
