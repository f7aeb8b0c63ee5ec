// The files of a fine-tuning job, the identity of its base, and its process.
#include "serve/tuning/job_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <set>

#include "base/file.h"
#include "scratch_folder.h"
#include "serve/tuning/base_identity.h"
#include "serve/tuning/job.h"
#include "serve/tuning/job_process.h"
#include "serve/tuning/start_limited.h"
#include "tuning_files.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

TEST(JobFolder, ReadsAndKeepsTails) {
  const ScratchFolder scratch;
  const std::string path = scratch.path() + "/text";
  EXPECT_EQ(file_tail(path, 10), "");
  write_text(path, "first\nsecond\nthird\n");
  EXPECT_EQ(file_tail(path, 100), "first\nsecond\nthird\n");
  EXPECT_EQ(file_tail(path, 9), "third\n") << "the line that is cut is left out";
  const JobFolder job(scratch.path(), "ftjob-1");
  write_text(job.output(), std::string(1 << 20, 'x') + "\r\n\nlast line\r\n");
  EXPECT_EQ(job.last_output_line(), "last line");
  write_text(job.output(), std::string(1 << 20, 'x'));
  EXPECT_EQ(job.last_output_line(), std::string(500, 'x'));
}

TEST(JobFolder, EventsAreBounded) {
  const ScratchFolder scratch;
  const JobFolder job(scratch.path(), "ftjob-1");
  fs::create_directory(scratch.path() + "/ftjob-1");
  for (int step = 1; step <= 8000; ++step)
    job.add_event(tuning_event("info", "step", {{"step", step}, {"train_loss", 0.5}}));
  job.add_event(tuning_event("info", "validation", {{"step", 7}, {"valid_loss", 0.5}}));
  EXPECT_EQ(job.events().size(), JobFolder::kMaxEvents);
  EXPECT_EQ(job.last_step_with_event("train_loss"), 8000);
  EXPECT_EQ(job.last_step_with_event("valid_loss"), 7);
  const std::string path = scratch.path() + "/ftjob-1/events.jsonl";
  EXPECT_LT(fs::file_size(path), size_t{2} << 20);
  std::ofstream(path, std::ios::app) << R"({"object": "fine_tu)";  // the server was killed while it wrote
  EXPECT_EQ(job.events().at(0)["message"], "validation");
  job.add_event(tuning_event("info", "next"));
  EXPECT_EQ(job.events().at(0)["message"], "next");
  EXPECT_EQ(job.events().at(1)["message"], "validation");
}

// A run with two checkpoints, the second incomplete.
void write_run(const JobFolder& job) {
  write_text(job.log(), R"({"step": 20, "loss": 1.5, "lr": 0.1})"
                        "\n"
                        R"({"step": 20, "validation": {"loss": 2.5}})"
                        "\n"
                        R"({"step": 40, "loss": 0.5, "lr": 0.1})"
                        "\n");
  write_text(job.run() + "/checkpoint-20/complete.json", "{}");
  write_text(job.run() + "/checkpoint-40.tmp/state.safetensors", "x");
  write_text(job.run() + "/checkpoint-x/complete.json", "{}");
  write_text(job.run() + "/data/part.bin", "private");
  write_text(job.run() + "/events.out.tfevents.1", "x");
  write_text(job.run() + "/adapter_model.safetensors", "x");
}

TEST(JobFolder, KeepsTheListOfCheckpoints) {
  for (const bool succeeded : {true, false}) {
    const ScratchFolder scratch;
    const JobFolder job(scratch.path(), "ftjob-ab");
    const std::string data = scratch.path() + "/data";
    write_text(data, "{}\n");
    ASSERT_TRUE(job.create(data, data).ok());
    write_run(job);
    const auto before = job.checkpoints();
    ASSERT_EQ(before.size(), 1u);
    EXPECT_EQ(before[0]["id"], "ftckpt-ab-20");
    EXPECT_EQ(before[0]["metrics"], Json({{"step", 20}, {"train_loss", 1.5}, {"valid_loss", 2.5}}));
    EXPECT_LE(std::abs(before[0]["created_at"].get<int64_t>() - std::time(nullptr)), 600);
    for (int i = 0; i < 2; ++i) {
      job.clean(succeeded);
      EXPECT_EQ(job.checkpoints(), before);
    }
    std::set<std::string> left;
    for (const auto& entry : fs::recursive_directory_iterator(scratch.path() + "/ftjob-ab"))
      left.insert(entry.path().filename().string());
    EXPECT_EQ(left, succeeded ? std::set<std::string>(
                                    {"checkpoints.json", "run", "log.jsonl", "adapter_model.safetensors"})
                              : std::set<std::string>({"checkpoints.json", "run", "log.jsonl"}));
    EXPECT_TRUE(fs::exists(data));
  }
}

TEST(BaseIdentities, HashOnlyChangedFiles) {
  const ScratchFolder scratch;
  const std::string file = scratch.path() + "/model/weights";
  write_text(file, "a");
  int hashed = 0;
  const HashModel hash = [&](const std::string&, const auto& stop) -> Result<std::string> {
    ++hashed;
    if (stop()) return error_at(file, "stopped");
    return read_file(file);
  };
  BaseIdentities identities(hash), next_server(hash);
  const auto first = identities.of(scratch.path() + "/model");
  ASSERT_TRUE(first.ok() && identities.of(first->path).ok() && next_server.of(first->path, *first).ok());
  EXPECT_EQ(hashed, 1);
  write_text(file, "bc");
  EXPECT_EQ(identities.of(first->path, *first)->hash, "bc");
  EXPECT_EQ(next_server.of(first->path, *first)->hash, "bc");
  EXPECT_EQ(hashed, 3);
  EXPECT_FALSE(identities.of(scratch.path() + "/none").ok());
  const auto changed = identities.check("tiny", first->path, *first, "then");
  ASSERT_FALSE(changed.ok());
  EXPECT_EQ(changed.error().text(), "model: the files of 'tiny' have changed since then");
  write_text(file, "a");
  next_server.stop();
  const auto stopped = next_server.check("tiny", first->path, *first, "then");
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().text(), "model: the files of 'tiny' cannot be read: stopped");
  EXPECT_EQ(identities.check("tiny", first->path, *first, "then")->hash, "a");
}

TEST(JobProcess, TheBaseHasANameThatStays) {
  const ScratchFolder scratch;
  const std::string folder = scratch.path() + "/job", parts = scratch.path() + "/m-00001-of-00002.gguf";
  fs::create_directory(folder);
  write_text(scratch.path() + "/a/config.json", "a"), write_text(scratch.path() + "/b/config.json", "b");
  write_text(scratch.path() + "/m.gguf", "one"), write_text(parts, "first");
  EXPECT_EQ(*link_base(folder, scratch.path() + "/a"), "served_base");
  EXPECT_EQ(*read_file(folder + "/served_base/config.json"), "a");
  EXPECT_EQ(*link_base(folder, scratch.path() + "/b"), "served_base");
  EXPECT_EQ(*read_file(folder + "/served_base/config.json"), "b");
  EXPECT_EQ(*link_base(folder, scratch.path() + "/m.gguf"), "served_base.gguf");
  EXPECT_EQ(*read_file(folder + "/served_base.gguf"), "one");
  EXPECT_EQ(*link_base(folder, parts), "served_base/m-00001-of-00002.gguf");
  EXPECT_EQ(*read_file(folder + "/served_base/m-00001-of-00002.gguf"), "first");
}

TEST(JobProcess, KnowsAProcessByItsStart) {
  const ScratchFolder scratch;
  const std::string stat = scratch.path() + "/stat";
  EXPECT_FALSE(running_process(stat));
  const auto started =
      start_limited({"/bin/sh", "-c", "sleep 600"}, {scratch.path(), scratch.path() + "/out", stat, 1 << 30});
  ASSERT_TRUE(started.ok());
  EXPECT_TRUE(until([&] { return running_process(stat) == *started; }));
  const std::string text = *read_file(stat);
  for (const std::string& other : {std::string("x"), std::string("1 (a"), text.substr(0, text.size() / 4),
                                   std::string("1 (sh) S 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 7 0\n")}) {
    write_text(stat, other);
    EXPECT_FALSE(running_process(stat)) << other;
  }
  write_text(stat, text);
  kill(-*started, SIGKILL);
  EXPECT_TRUE(until([&] { return !running_process(stat); })) << "dead, though nobody waited for it";
  waitpid(*started, nullptr, 0);
}

}  // namespace
}  // namespace makar
