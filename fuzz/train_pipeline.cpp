// Any bytes as a pipeline: stages with a command each, or a located error.
#include "target.h"
#include "train/pipeline.h"

using namespace makar;

FUZZ_TARGET(train_pipeline) {
  const auto read =
      parse_pipeline({reinterpret_cast<const char*>(data), size}, "fuzz.yaml", {{"model", "some/{folder}"}});
  if (!read.ok()) {
    check(read.error().text().size() < 4000, "a bounded message");
    return 0;
  }
  check(!read->stages.empty() && !read->folder().empty(), "a pipeline has stages and a folder");
  for (const PipelineStage& stage : read->stages)
    check(!stage.name.empty() && !stage.command.empty(), "a stage has a name and a command");
  return 0;
}
