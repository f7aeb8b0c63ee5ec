// makar merge: merges adapters into their base model.
#include <fmt/format.h>

#include "cli/run.h"
#include "convert/tokenizer_fields.h"
#include "kernels/cpu_device.h"
#include "models/adapter.h"
#include "models/source.h"
#include "train/finish.h"

namespace makar {
namespace {

Status copy_tokenizer(const std::string& base, const std::string& out) {
  MAKAR_TRY(const ModelSource source, ModelSource::open(base));
  if (!source.gguf) return copy_tokenizer_files(base, out);
  MAKAR_RETURN_IF_ERROR(write_tokenizer(source.gguf->fields(), out));
  return Done{};
}

}  // namespace

int run_merge(const std::vector<std::string>& arguments) {
  std::string base, out;
  std::vector<std::string> adapters;
  int64_t threads = 0;
  Options options("merge", "Merge PEFT adapters into their base model.",
                  "makar merge -m base --lora run -o merged");
  options.add("-m --base-model --model", &base, "base model: a folder, or a GGUF file", "MODEL").required =
      true;
  options
      .add("--lora --lora-model-dir", &adapters,
           "adapter folder, optionally FOLDER:WEIGHT; repeat to add several", "DIR")
      .required = true;
  options.add("-o --output-dir --out", &out, "folder to write", "DIR").required = true;
  options.add("-t --threads", &threads, "number of threads; 0 for one per core", "N");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  CpuDevice device(static_cast<int>(std::clamp<int64_t>(threads, 0, 256)));
  const auto loaded = load_model(base, {.trainable = true});
  if (!loaded.ok()) return report(loaded.error());
  if (const Status s = load_adapters(*loaded, adapters, device); !s.ok()) return report(s.error());
  merge_adapter(*loaded, device);
  if (const Status s = save_model(out, *loaded->model, *loaded->family); !s.ok()) return report(s.error());
  if (const Status s = copy_tokenizer(base, out); !s.ok()) return report(s.error());
  fmt::print("{}: {} with {} merged\n", out, loaded->model->spec().architecture, fmt::join(adapters, ", "));
  return 0;
}

}  // namespace makar
