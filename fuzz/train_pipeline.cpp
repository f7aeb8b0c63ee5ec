// Any bytes as a pipeline: stages with a command each, or a located error.
#include "target.h"
#include "train/pipeline.h"

using namespace makar;

FUZZ_TARGET(train_pipeline) {
  const auto pipeline =
      parse_pipeline({reinterpret_cast<const char*>(data), size}, "fuzz.yaml", {{"model", "some/{folder}"}});
  if (!pipeline.ok()) {
    check(pipeline.error().text().size() < 4000, "a bounded message");
    return 0;
  }
  check(!pipeline->stages.empty() && !pipeline->folder().empty(), "a pipeline has stages and a folder");
  for (const PipelineStage& stage : pipeline->stages)
    check(!stage.name.empty() && !stage.command.empty(), "a stage has a name and a command");
  return 0;
}
