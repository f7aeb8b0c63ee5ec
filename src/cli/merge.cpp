// makar merge: an adapter folded into its base, as a model folder.
#include <fmt/format.h>

#include "cli/run.h"
#include "models/adapter.h"
#include "models/source.h"
#include "quant/tokenizer_fields.h"
#include "train/finish.h"

namespace makar {
namespace {

Status copy_tokenizer(const std::string& base, const std::string& out) {
  MAKAR_TRY(const ModelSource source, ModelSource::open(base));
  if (!source.gguf) return copy_tokenizer_files(base, out);
  MAKAR_CHECK_OK(write_tokenizer(source.gguf->fields(), out));
  return Done{};
}

}  // namespace

int run_merge(const std::vector<std::string>& arguments) {
  std::string base, out;
  std::vector<std::string> adapters;
  int64_t threads = 0;
  Options options("merge", "Folds PEFT adapters into their base model.",
                  "makar merge -m base --lora run -o merged");
  options.add("-m --base-model --model", &base, "the base: a folder, or a GGUF file", "DIR").required = true;
  options
      .add("--lora --adapter --lora-model-dir", &adapters,
           "an adapter's folder, with :WEIGHT where wanted; repeat to add several up", "DIR")
      .required = true;
  options.add("-o --output-dir --out", &out, "the folder to write", "DIR").required = true;
  options.add("-t --threads", &threads, "0: one for each core", "N");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  ThreadPool pool(static_cast<int>(std::clamp<int64_t>(threads, 0, 256)));
  const auto loaded = load_model(base, {true});
  if (!loaded.ok()) return report(loaded.error());
  if (const Status s = load_adapters(*loaded, adapters, pool); !s.ok()) return report(s.error());
  merge_adapter(*loaded, pool);
  if (const Status s = save_model(out, *loaded->model, *loaded->family); !s.ok()) return report(s.error());
  if (const Status s = copy_tokenizer(base, out); !s.ok()) return report(s.error());
  fmt::print("{}: {} with {} folded in\n", out, loaded->model->spec().architecture,
             fmt::join(adapters, ", "));
  return 0;
}

}  // namespace makar
