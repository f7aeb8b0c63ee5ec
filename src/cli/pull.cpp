// makar pull: download a model or a dataset.
#include "hub/pull.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/progress.h"
#include "cli/model_path.h"
#include "cli/run.h"

namespace makar {
namespace {

std::string environment_or(const char* name, const std::string& fallback) {
  const char* value = std::getenv(name);
  return value && value[0] ? value : fallback;
}

Result<std::string> target_folder(const HubSource& source, const std::string& output) {
  if (!output.empty()) return output;
  MAKAR_TRY(const std::string models, model_folder());
  const std::string root = source.dataset ? models + "/../datasets" : models;
  return source.repository.empty() ? root : root + "/" + source.repository;
}

}  // namespace

int run_pull(const std::vector<std::string>& arguments) {
  std::string name, output, endpoint = environment_or("HF_ENDPOINT", "https://huggingface.co");
  bool dataset = false, quiet = false;
  Options options(
      "pull",
      "Download a model: its configuration, tokenizer and weights (safetensors, or one GGUF file). "
      "An interrupted download is resumed, and every file is verified. Other commands then take the model "
      "by its name.",
      "makar pull HuggingFaceTB/SmolLM2-135M-Instruct");
  options.group("Source");
  options.positional("NAME", &name,
                     "OWNER/NAME on the Hugging Face hub, optionally with @REVISION or :QUANTIZATION; or the "
                     "URL of a repository or of a file");
  options.add("--dataset", &dataset, "NAME is a dataset: download all its files");
  options.add("--endpoint", &endpoint, "the hub or a mirror of it; the variable HF_ENDPOINT sets it too",
              "URL");
  options.group("Output");
  options.add(
      "-o --output", &output,
      "folder to write; if not set, a folder that makar list shows (below MAKAR_MODELS, or makar/models in "
      "the user's data folder)",
      "DIR");
  options.add("-q --quiet", &quiet, "print no progress");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const auto source = parse_source(name, dataset);
  if (!source.ok()) return report(source.error()), 2;
  const auto folder = target_folder(*source, output);
  if (!folder.ok()) return report(folder.error());
  PullOptions o;
  o.endpoint = endpoint, o.token = environment_or("HF_TOKEN", "");
  const auto pulled = [&] {
    Progress progress(quiet);
    o.progress = [&](const std::string& file, uint64_t bytes, uint64_t size) {
      progress.show(file, bytes, size, fmt::format("{:.1f} MB", static_cast<double>(bytes) * 1e-6));
      return true;
    };
    return pull(*source, *folder, o);
  }();
  if (!pulled.ok()) {
    report(pulled.error());
    if (pulled.error().kind == Error::Kind::kIo)
      fmt::print(stderr, "makar: {}\n", offline_advice(*source, *folder, endpoint));
    return 1;
  }
  fmt::print("{}: {} file{} downloaded, {} already there, {:.1f} MB\n", pulled->path,
             pulled->downloaded.size(), pulled->downloaded.size() == 1 ? "" : "s", pulled->present.size(),
             static_cast<double>(pulled->bytes) * 1e-6);
  if (!source->dataset && output.empty())
    fmt::print("try: makar chat {}\n",
               source->repository.empty() ? model_name(pulled->path) + ".gguf" : source->repository);
  return 0;
}

}  // namespace makar
