// Fine-tuning jobs: changes of status, whose turn it is, limits, the files of a job, what a killed server
// leaves behind, and processes at their limits. The processes are shell scripts.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "scratch_folder.h"
#include "serve/tuning/job.h"
#include "serve/tuning/job_process.h"
#include "serve/tuning/start_limited.h"
#include "serve/tuning/tuning_jobs.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

void write(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << text;
}

template <class Reached>
bool until(const Reached& reached) {
  for (int i = 0; i < 60000 && !reached(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return reached();
}

// Records in a scratch folder, and jobs in them.
class TuningRecordsTest : public testing::Test {
 protected:
  TuningRecordsTest() : folder_(scratch_.path()), data_(folder_ + "/file-1.data") {
    write(data_, "{}\n");
    open();
  }
  void open() { records_.emplace(folder_, limits_); }
  Result<Json> try_create(const std::string& owner) {
    MAKAR_TRY(Json job, new_tuning_job({{"model", "tiny"}, {"training_file", "file-1"}}));
    return records_->create(owner, job, data_, "");
  }
  std::string create(const std::string& owner) {
    const auto job = try_create(owner);
    EXPECT_TRUE(job.ok()) << job.error().text();
    return (*job)["id"].get<std::string>();
  }
  std::string status(const std::string& id) { return records_->get(id)->job["status"].get<std::string>(); }
  bool succeed(const std::string& id) {
    return records_->succeed(id, "ft:" + id, [&](const TuningRecord& record) -> Status {
      published_.insert(record.model());
      return Done{};
    });
  }
  Status delete_model(const std::string& owner, const std::string& name) {
    return records_->delete_model(owner, name, [&](const std::string& gone) { published_.erase(gone); });
  }
  std::string event(const std::string& id) { return records_->folder(id).events().at(0)["message"]; }

  const ScratchFolder scratch_;
  const std::string folder_, data_;
  TuningLimits limits_{.unfinished = 3, .stored = 5};
  std::optional<TuningRecords> records_;
  std::set<std::string> published_;
};

TEST_F(TuningRecordsTest, NothingChangesAfterTheEnd) {
  const std::string a = create("x"), b = create("x"), c = create("x");
  ASSERT_TRUE(records_->cancel("x", a).ok());
  EXPECT_FALSE(records_->start(a) || succeed(a) || records_->fail(a, "no"));
  records_->set_progress(a, 5, 5);
  EXPECT_EQ(records_->get(a)->seconds, 0);
  EXPECT_TRUE(records_->start(b) && succeed(b));
  const auto late = records_->cancel("x", b);
  ASSERT_FALSE(late.ok());
  EXPECT_NE(late.error().message.find("already ended: succeeded"), std::string::npos);
  EXPECT_TRUE(records_->start(c) && records_->fail(c, "why"));
  EXPECT_FALSE(succeed(c));
  EXPECT_EQ(published_, std::set<std::string>{"ft:" + b});
  for (int server = 0; server < 2; ++server, open()) {
    EXPECT_EQ(status(a) + " " + status(b) + " " + status(c), "cancelled succeeded failed");
    EXPECT_EQ(event(a), "The job was cancelled");
    EXPECT_EQ(event(c), "The job failed: why");
    EXPECT_EQ(records_->get(c)->job["error"]["message"], "why");
    EXPECT_FALSE(records_->next());
  }
}

TEST_F(TuningRecordsTest, CancelAndSuccessAtOnceHaveOneOutcome) {
  limits_ = {};
  open();
  for (int i = 0; i < 60; ++i) {
    const std::string id = create(std::to_string(i));
    std::atomic<int> ready{0};
    bool cancelled = false;
    std::thread other([&] {
      for (++ready; ready < 2;) {
      }
      cancelled = records_->cancel(std::to_string(i), id).ok();
    });
    for (++ready; ready < 2;) {
    }
    const bool started = records_->start(id), succeeded = started && succeed(id);
    other.join();
    EXPECT_NE(cancelled, succeeded);
    EXPECT_EQ(status(id), succeeded ? "succeeded" : "cancelled");
    EXPECT_EQ(published_.contains("ft:" + id), succeeded);
    EXPECT_EQ(event(id).find("cancelled") == std::string::npos, succeeded);
    EXPECT_EQ(records_->get(id)->job["fine_tuned_model"].is_null(), !succeeded);
  }
}

TEST_F(TuningRecordsTest, OwnersTakeTurns) {
  const std::string a1 = create("a"), a2 = create("a"), a3 = create("a"), b1 = create("b"), b2 = create("b"),
                    c1 = create("c");
  std::string order;
  for (int i = 0; i < 6; ++i) {
    const std::string id = *records_->next();
    order += records_->get(id)->owner + (id == a1 || id == b1 || id == c1 ? "1 "
                                         : id == a2 || id == b2           ? "2 "
                                                                          : "3 ");
    records_->start(id);
    open();  // the next server continues with the job that ran
    EXPECT_EQ(*records_->next(), id);
    records_->fail(id, "");
    open();  // and knows whose turn it is
  }
  EXPECT_EQ(order, "a1 b1 c1 a2 b2 a3 ");
}

TEST_F(TuningRecordsTest, LimitsOfAnOwner) {
  for (int i = 0; i < 3; ++i) create("x");
  EXPECT_EQ(try_create("x").error().place, "memory") << "too many are unfinished; later there are fewer";
  EXPECT_TRUE(try_create("y").ok());
  std::vector<std::string> ids;
  for (const Json& job : records_->list("x")) ids.insert(ids.begin(), job["id"].get<std::string>());
  records_->fail(ids[0], "");
  for (size_t i = 1; i < 3; ++i) succeed(ids[i]);
  for (int i = 0; i < 2; ++i) ids.push_back(create("x")), succeed(ids.back());
  ids.push_back(create("x"));  // the sixth; the first, which failed, is deleted
  EXPECT_FALSE(records_->get(ids[0]));
  EXPECT_FALSE(fs::exists(folder_ + "/" + ids[0]) || fs::exists(folder_ + "/" + ids[0] + ".json"));
  succeed(ids.back());
  const auto full = try_create("x");
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().kind, Error::Kind::kLimit);
  EXPECT_NE(full.error().message.find("DELETE /v1/models"), std::string::npos);
  ASSERT_TRUE(delete_model("x", "ft:" + ids[3]).ok());
  EXPECT_TRUE(try_create("x").ok());
  EXPECT_FALSE(records_->get(ids[3])) << "its job is the oldest without a model";
}

TEST_F(TuningRecordsTest, AnOwnerKeepsItsTurnWhenItsJobsAreDeleted) {
  limits_ = {.unfinished = 3, .stored = 2};
  open();
  const std::string b = create("b");
  records_->start(b), records_->fail(b, "");
  const std::string first = create("a");
  records_->start(first), records_->fail(first, "");
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(records_->cancel("a", create("a")).ok());
  EXPECT_FALSE(records_->get(first));
  open();
  create("a");
  const std::string next = create("b");
  EXPECT_EQ(*records_->next(), next) << "the latest start of b was before that of a";
}

TEST(TuningJob, EpochsAreWhole) {
  const auto create = [](const Json& epochs) {
    return new_tuning_job({{"training_file", "file-1"}, {"hyperparameters", {{"n_epochs", epochs}}}});
  };
  EXPECT_FALSE(create(1.9).ok() || create("2").ok() || create(0).ok());
  EXPECT_EQ((*create("auto"))["hyperparameters"]["n_epochs"], 3);
  EXPECT_EQ((*create(2))["hyperparameters"]["n_epochs"], 2);
}

TEST_F(TuningRecordsTest, AModelIsDeletedByItsOwner) {
  const std::string id = create("x"), model = "ft:" + id, adapter = records_->folder(id).run() + "/adapter";
  write(adapter, "weights");
  EXPECT_EQ(delete_model("x", model).error().kind, Error::Kind::kNotFound) << "not trained yet";
  succeed(id);
  EXPECT_EQ(delete_model("y", model).error().kind, Error::Kind::kNotFound);
  EXPECT_TRUE(published_.contains(model) && fs::exists(adapter));
  EXPECT_TRUE(delete_model("x", model).ok());
  EXPECT_FALSE(published_.contains(model) || fs::exists(adapter));
  EXPECT_TRUE(delete_model("x", model).ok()) << "repeated, as after a lost answer";
  EXPECT_EQ(status(id), "succeeded");
  EXPECT_FALSE(records_->get(id)->has_model());
}

TEST_F(TuningRecordsTest, DeletionsOfAKilledServerAreCompleted) {
  const std::string id = create("x"), other = create("x");
  succeed(id), succeed(other);
  ASSERT_TRUE(delete_model("x", "ft:" + id).ok());
  const std::string half_deleted = records_->folder(id).run() + "/adapter",
                    kept = records_->folder(other).run() + "/adapter", orphan = folder_ + "/ftjob-orphan",
                    damaged = folder_ + "/ftjob-damaged";
  write(half_deleted, "weights"), write(kept, "weights"), write(orphan + "/run/adapter", "weights");
  write(damaged + "/run/adapter", "weights"), write(damaged + ".json", "{");
  open();
  EXPECT_FALSE(fs::exists(half_deleted));
  EXPECT_FALSE(fs::exists(orphan)) << "a folder without a record: the job was being created or deleted";
  EXPECT_TRUE(fs::exists(kept));
  EXPECT_TRUE(fs::exists(damaged + "/run/adapter")) << "a record that cannot be read";
  EXPECT_FALSE(records_->get(id)->has_model());
  EXPECT_TRUE(records_->get(other)->has_model());
}

// A process that creates, ends and deletes without pause is killed at random moments.
TEST_F(TuningRecordsTest, KillsLeaveNoModelWithoutFilesAndNoFilesWithoutJob) {
  limits_ = {.unfinished = 4, .stored = 6};
  std::mt19937 random(1);
  int models = 0, deleted = 0;
  for (int kill = 0; kill < 40; ++kill) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      for (open();;) {
        if (const auto job = try_create("x"); job.ok()) {
          const std::string id = (*job)["id"].get<std::string>();
          write(records_->folder(id).run() + "/adapter", "weights");
          if (random() % 4 == 0) (void)records_->cancel("x", id);
          records_->start(id), succeed(id);
        }
        for (const TuningRecord& record : records_->all())
          if (record.has_model() && random() % 3 == 0) (void)delete_model("x", record.model());
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 40000));
    ::kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    open();
    for (const TuningRecord& record : records_->all()) {
      const std::string run = records_->folder(record.id()).run();
      models += record.has_model(), deleted += record.model_deleted;
      EXPECT_TRUE(!record.has_model() || fs::exists(run + "/adapter")) << record.id();
      EXPECT_TRUE(!record.model_deleted || !fs::exists(run)) << record.id();
    }
    for (const auto& entry : fs::directory_iterator(folder_))
      EXPECT_TRUE(!entry.is_directory() || records_->get(entry.path().filename().string())) << entry.path();
    for (const TuningRecord& record : records_->all())
      if (!record.is_over()) records_->fail(record.id(), "");
  }
  EXPECT_GT(models, 0);
  EXPECT_GT(deleted, 0);
}

TEST_F(TuningRecordsTest, AFailedCreationLeavesNothing) {
  fs::remove(data_);
  const auto failed = try_create("x");
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, Error::Kind::kNotFound);
  EXPECT_EQ(failed.error().text(), "training_file: the file was deleted");
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST(JobFolder, ReadsAndKeepsTails) {
  const ScratchFolder scratch;
  const std::string path = scratch.path() + "/text";
  EXPECT_EQ(file_tail(path, 10), "");
  write(path, "first\nsecond\nthird\n");
  EXPECT_EQ(file_tail(path, 100), "first\nsecond\nthird\n");
  EXPECT_EQ(file_tail(path, 9), "third\n") << "the line that is cut is left out";
  const JobFolder job(scratch.path(), "ftjob-1");
  write(job.output(), std::string(1 << 20, 'x') + "\r\n\nlast line\r\n");
  EXPECT_EQ(job.last_output_line(), "last line");
  write(job.output(), std::string(1 << 20, 'x'));
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
  write(job.log(), R"({"step": 20, "loss": 1.5, "lr": 0.1})"
                   "\n"
                   R"({"step": 20, "validation": {"loss": 2.5}})"
                   "\n"
                   R"({"step": 40, "loss": 0.5, "lr": 0.1})"
                   "\n");
  write(job.run() + "/checkpoint-20/complete.json", "{}");
  write(job.run() + "/checkpoint-40.tmp/state.safetensors", "x");
  write(job.run() + "/checkpoint-x/complete.json", "{}");
  write(job.run() + "/data/part.bin", "private");
  write(job.run() + "/events.out.tfevents.1", "x");
  write(job.run() + "/adapter_model.safetensors", "x");
}

TEST(JobFolder, KeepsTheListOfCheckpoints) {
  for (const bool succeeded : {true, false}) {
    const ScratchFolder scratch;
    const JobFolder job(scratch.path(), "ftjob-ab");
    const std::string data = scratch.path() + "/data";
    write(data, "{}\n");
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
  write(file, "a");
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
  write(file, "bc");
  EXPECT_EQ(identities.of(first->path, *first)->hash, "bc");
  EXPECT_EQ(next_server.of(first->path, *first)->hash, "bc");
  EXPECT_EQ(hashed, 3);
  EXPECT_FALSE(identities.of(scratch.path() + "/none").ok());
  const auto changed = identities.check("tiny", first->path, *first, "then");
  ASSERT_FALSE(changed.ok());
  EXPECT_EQ(changed.error().text(), "model: the files of 'tiny' have changed since then");
  write(file, "a");
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
  write(scratch.path() + "/a/config.json", "a"), write(scratch.path() + "/b/config.json", "b");
  write(scratch.path() + "/m.gguf", "one"), write(parts, "first");
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
    write(stat, other);
    EXPECT_FALSE(running_process(stat)) << other;
  }
  write(stat, text);
  kill(-*started, SIGKILL);
  EXPECT_TRUE(until([&] { return !running_process(stat); })) << "dead, though nobody waited for it";
  waitpid(*started, nullptr, 0);
}

// A server whose jobs are shell scripts; $RUN is the folder of the run.
class TuningJobsTest : public testing::Test {
 protected:
  TuningJobsTest() : base_(scratch_.path() + "/base") {
    write(base_, "base");
    options_.base = [this](const std::string& name) -> Result<TuningBase> {
      if (!served_) return error_at("model", "{} is not served", name);
      return TuningBase{"tiny", base_};
    };
    options_.command = [this](const Json&, const TuningBase&, const TuningFiles& files) {
      return std::vector<std::string>{"/bin/sh", "-c", "RUN=" + files.folder + "; mkdir -p $RUN; " + script_};
    };
    options_.identity = [](const std::string& path, const auto&) { return read_file(path); };
    options_.publish = [this](const TunedModel& model) -> Status {
      published_ += model.name, check_ = model.check;
      return Done{};
    };
    options_.unpublish = [this](const std::string&) { published_.clear(); };
    options_.log = [this](const std::string& line) { log_ += line; };
  }
  ~TuningJobsTest() override { stop(); }
  void start() {
    auto store = FileStore::open(scratch_.path() + "/files", {});
    ASSERT_TRUE(store.ok());
    store_ = std::move(*store);
    ASSERT_TRUE(store_->prepare().ok());
    jobs_ = std::make_unique<TuningJobs>(*store_, options_);
  }
  void stop() { jobs_.reset(), store_.reset(); }
  std::string create() {
    const auto file = store_->add("", "lines", "fine-tune", "{}\n");
    const auto job = jobs_->create("", {{"training_file", (*file)["id"]}});
    EXPECT_TRUE(job.ok()) << job.error().text();
    EXPECT_EQ((*job)["model"], "tiny") << "the model's name, though the request has none";
    return (*job)["id"].get<std::string>();
  }
  Json job(const std::string& id) { return *jobs_->find("", id); }
  std::string run_folder(const std::string& id) { return store_->folder() + "/" + id + "/run"; }
  std::string end(const std::string& id) {
    EXPECT_TRUE(until([&] { return tuning_is_over(job(id)); }));
    const Json done = job(id);
    return (done["error"].is_null() ? done["status"] : done["error"]["message"]).get<std::string>();
  }

  const ScratchFolder scratch_;
  const std::string base_;
  bool served_ = true;
  std::function<Status()> check_;
  std::string script_ = "exit 1", published_, log_;
  TuningOptions options_;
  std::unique_ptr<FileStore> store_;
  std::unique_ptr<TuningJobs> jobs_;
};

const std::string kFinish =
    "touch $RUN/adapter_model.safetensors $RUN/adapter_config.json; "
    R"(echo '{"finished": true}' > $RUN/run.json)";

TEST_F(TuningJobsTest, SucceedsOrFailsWithItsReason) {
  script_ = R"(echo '{"step": 1, "loss": 2.0, "lr": 0.1, "tokens": 7}' > $RUN/log.jsonl; )" + kFinish;
  start();
  const std::string id = create();
  EXPECT_EQ(end(id), "succeeded");
  EXPECT_EQ(published_, job(id)["fine_tuned_model"].get<std::string>());
  EXPECT_EQ(job(id)["trained_tokens"], 7);
  EXPECT_EQ(jobs_->events("", id)->at(1)["data"]["train_loss"], 2.0);
  EXPECT_TRUE(until([&] { return !fs::exists(store_->folder() + "/" + id + "/training.jsonl"); }));
  script_ = "echo first; echo the reason; exit 1";
  EXPECT_EQ(end(create()), "the reason");
  script_ = "kill -9 $$";
  EXPECT_NE(end(create()).find("signal 9"), std::string::npos);
}

TEST_F(TuningJobsTest, LimitsOfTimeAndDisk) {
  script_ = "sleep 600";
  options_.max_seconds = 0.5;
  start();
  const std::string id = create();
  EXPECT_NE(end(id).find("--fine-tuning-time"), std::string::npos) << end(id);
  stop();
  options_.max_seconds = 0, options_.disk = 1000;
  script_ = "head -c 2000 /dev/zero > $RUN/log.jsonl; sleep 600";
  start();
  EXPECT_NE(end(create()).find("--fine-tuning-disk"), std::string::npos);
}

TEST_F(TuningJobsTest, TimeCountsUnderAllServers) {
  script_ = "sleep 600";
  options_.max_seconds = 1.2;
  start();
  const std::string id = create();
  EXPECT_TRUE(until([&] { return job(id)["status"] == "running"; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  stop();
  const auto begin = std::chrono::steady_clock::now();
  start();
  EXPECT_NE(end(id).find("--fine-tuning-time"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1100));
}

TEST_F(TuningJobsTest, ACancelledJobIsStoppedAndNotPublished) {
  script_ = "trap '' TERM; sleep 600; " + kFinish;
  start();
  const std::string id = create(), waiting = create();
  EXPECT_TRUE(until([&] { return job(id)["status"] == "running"; }));
  EXPECT_EQ((*jobs_->cancel("", waiting))["status"], "cancelled");
  EXPECT_EQ((*jobs_->cancel("", id))["status"], "cancelled");
  script_ = kFinish;
  EXPECT_EQ(end(create()), "succeeded") << "the thread goes on";
  EXPECT_EQ(job(id)["fine_tuned_model"], nullptr);
}

TEST_F(TuningJobsTest, WaitsForTheProcessOfAKilledServer) {
  script_ = "sleep 600";
  start();
  const std::string id = create();
  EXPECT_TRUE(until([&] { return fs::exists(run_folder(id)); }));
  stop();
  script_ = kFinish;
  const int lock = ::open((scratch_.path() + "/files/" + id + "/run").c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  start();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_EQ(job(id)["status"], "running");
  ::close(lock);
  EXPECT_EQ(end(id), "succeeded");
}

TEST_F(TuningJobsTest, TheFilesOfACancelledJobAreDeletedByTheNextServer) {
  script_ = "sleep 600";
  start();
  const std::string id = create();
  EXPECT_TRUE(until([&] { return fs::exists(run_folder(id)); }));
  stop();
  {  // killed before it deleted the files of the job
    TuningRecords records(scratch_.path() + "/files", {});
    ASSERT_TRUE(records.cancel("", id).ok());
  }
  const std::string checkpoint = scratch_.path() + "/files/" + id + "/run/checkpoint-20/complete.json";
  const int lock = ::open((scratch_.path() + "/files/" + id + "/run").c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  start();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  write(checkpoint, "{}");  // the last act of its process
  ::close(lock);
  EXPECT_TRUE(until([&] { return !fs::exists(checkpoint); }));
  EXPECT_EQ(jobs_->checkpoints("", id)->size(), 1u);
}

TEST_F(TuningJobsTest, AStoppedProcessContinues) {
  script_ = "if [ -e $RUN/stopped ]; then " + kFinish + "; else touch $RUN/stopped; kill -TERM $$; fi";
  start();
  EXPECT_EQ(end(create()), "succeeded") << "the process was stopped before the server";
  script_ = "kill -TERM $$";
  EXPECT_NE(end(create()).find("stopped the process 4 times"), std::string::npos);
}

TEST_F(TuningJobsTest, AModelNeedsTheBaseItWasTrainedOn) {
  script_ = kFinish;
  start();
  const std::string id = create();
  EXPECT_EQ(end(id), "succeeded");
  const std::string model = job(id)["fine_tuned_model"];
  const auto restart = [&] {
    stop();
    published_.clear(), log_.clear();
    start();
  };
  restart();
  EXPECT_EQ(published_ + log_, model);
  EXPECT_TRUE(check_().ok());
  const std::string record = store_->folder() + "/" + id + ".json", before = *read_file(record);
  write(base_, "another base");
  EXPECT_NE(check_().error().text().find("have changed since the training"), std::string::npos);
  write(base_, "base");
  EXPECT_TRUE(check_().ok()) << "the same bytes";
  restart();
  EXPECT_NE(*read_file(record), before) << "the next server need not read the base";
  write(base_, "another base");
  restart();
  EXPECT_EQ(published_, "");
  EXPECT_NE(log_.find("have changed since the training"), std::string::npos) << log_;
  EXPECT_EQ(jobs_->events("", id)->at(0)["level"], "warn");
  write(base_, "base");
  served_ = false;
  restart();
  EXPECT_NE(log_.find("is not served"), std::string::npos) << log_;
  served_ = true;
  restart();
  EXPECT_EQ(published_ + log_, model);
  const std::string weights = run_folder(id) + "/adapter_model.safetensors";
  fs::rename(weights, weights + "x");
  restart();
  EXPECT_NE(log_.find("adapter_model.safetensors is missing"), std::string::npos) << log_;
  fs::rename(weights + "x", weights);
  restart();
  EXPECT_EQ(published_ + log_, model);
  EXPECT_TRUE(jobs_->delete_model("", model).ok());
  restart();
  EXPECT_EQ(published_ + log_, "");
}

TEST_F(TuningJobsTest, AJobWaitsForItsBase) {
  script_ = "touch $RUN/kept; sleep 600";
  options_.retry_time = std::chrono::milliseconds(200);
  start();
  const std::string id = create();
  EXPECT_TRUE(until([&] { return fs::exists(run_folder(id) + "/kept"); }));
  stop();
  write(base_, "another base");
  script_ = kFinish;
  start();
  EXPECT_EQ(end(create()), "succeeded") << "other jobs run";
  const auto warning = [&] { return jobs_->events("", id)->at(0)["message"].get<std::string>(); };
  EXPECT_EQ(warning(), "The job waits: model: the files of 'tiny' have changed since the job started");
  stop();
  served_ = false, log_.clear();
  start();
  EXPECT_TRUE(until([&] { return warning().ends_with("is not served"); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  EXPECT_TRUE(job(id)["status"] == "running" && fs::exists(run_folder(id) + "/kept"));
  EXPECT_EQ(log_.find("waits"), log_.rfind("waits")) << "one line: " << log_;
  stop();
  served_ = true;
  write(base_, "base");
  fs::rename(base_, base_ + "-moved"), fs::create_symlink(base_ + "-moved", base_);
  start();
  EXPECT_EQ(end(id), "succeeded");
}

// A server that is killed leaves its process, which goes on for long.
TEST_F(TuningJobsTest, TheProcessOfAKilledServerIsEnded) {
  options_.stop_time = std::chrono::milliseconds(1500);
  script_ = "trap '' TERM; touch $RUN/started; sleep 600";
  for (const bool cancelled : {false, true}) {
    const pid_t server = fork();
    if (server == 0) {
      start(), create();
      for (;;) pause();
    }
    std::string id;
    EXPECT_TRUE(until([&] {
      std::error_code none;
      for (const auto& job : fs::directory_iterator(scratch_.path() + "/files", none))
        if (fs::exists(job.path() / "run/started")) id = job.path().filename().string();
      return !id.empty();
    }));
    ::kill(server, SIGKILL);
    waitpid(server, nullptr, 0);
    const std::string stat = scratch_.path() + "/files/" + id + "/process.txt";
    EXPECT_TRUE(running_process(stat));
    const std::string before = script_;
    script_ = kFinish;
    const auto begin = std::chrono::steady_clock::now();
    start();
    if (cancelled) EXPECT_TRUE(jobs_->cancel("", id).ok());
    EXPECT_EQ(end(create()), "succeeded") << "two processes at a time";
    EXPECT_FALSE(running_process(stat));
    EXPECT_EQ(end(id), cancelled ? "cancelled" : "succeeded");
    EXPECT_EQ(std::chrono::steady_clock::now() - begin < options_.stop_time, cancelled);
    stop();
    fs::remove_all(scratch_.path() + "/files");
    script_ = before;
  }
}

TEST_F(TuningJobsTest, ARunThatFinishedSucceedsWhateverTheLimits) {
  script_ = kFinish + "; sleep 600";
  start();
  const std::string id = create();
  EXPECT_TRUE(until([&] { return JobFolder(store_->folder(), id).run_finished(); }));
  {  // without the server's last look
    const std::string path = store_->folder() + "/" + id + ".json";
    stop();
    Json record = *read_json(path);
    record["job"]["status"] = "running", record["job"]["fine_tuned_model"] = nullptr, record["seconds"] = 100;
    write(path, dump(record));
  }
  options_.max_seconds = 1, options_.disk = 1;
  start();
  EXPECT_EQ(end(id), "succeeded");
}

TEST_F(TuningJobsTest, ADamagedRecordIsLeftOut) {
  script_ = "exit 1";
  start();
  const std::string id = create(), path = store_->folder() + "/" + id + ".json";
  end(id);
  stop();
  const Json record = *read_json(path);
  for (const char* patch :
       {R"({"hyperparameters": null})", R"({"hyperparameters": {}})", R"({"method": null})",
        R"({"hyperparameters": {"n_epochs": "3"}})", R"({"method": {}})", R"({"method": [1]})",
        R"({"status": "lost"})", R"({"seed": "1"})", R"({"suffix": 1})", R"({"model": null})",
        R"({"validation_file": 1})", R"({"status": "succeeded"})"}) {
    Json damaged = record;
    damaged["job"]["status"] = "running", damaged["job"]["error"] = nullptr;
    const Json changes = *parse_json(patch, "patch");
    for (const auto& [key, value] : changes.items()) damaged["job"][key] = value;
    write(path, dump(damaged));
    log_.clear();
    start();
    EXPECT_FALSE(jobs_->find("", id).ok()) << patch;
    EXPECT_NE(log_.find(id + ".json is left out"), std::string::npos) << log_;
    stop();
    EXPECT_EQ(*read_file(path), dump(damaged));
  }
  write(path, dump(record));
  start();
  EXPECT_EQ(job(id)["status"], "failed");
}

TEST_F(TuningJobsTest, AnExceptionFailsTheJob) {
  const auto command = options_.command;
  options_.command = [&](const Json& job, const TuningBase& base, const TuningFiles& files) {
    if (script_.empty()) throw std::runtime_error("odd");
    return command(job, base, files);
  };
  script_ = "";
  start();
  EXPECT_EQ(end(create()), "internal error: odd");
  script_ = kFinish;
  EXPECT_EQ(end(create()), "succeeded");
}

TEST_F(TuningJobsTest, MessagesHaveNoPaths) {
  script_ = "echo \"$PWD/run: training.jsonl: " + base_ + "/weights: served_base/weights\"; exit 1";
  start();
  EXPECT_EQ(end(create()), "run: training_file: tiny/weights: tiny/weights");
}

TEST_F(TuningJobsTest, AJobWaitsForSpace) {
  options_.retry_time = std::chrono::milliseconds(100);
  script_ = "if [ -e $RUN/checkpoint ]; then " + kFinish +
            "; else touch $RUN/checkpoint; echo write: No space left on device; exit 1; fi";
  start();
  const std::string id = create();
  EXPECT_EQ(end(id), "succeeded") << "it continues from its checkpoint";
  EXPECT_EQ(jobs_->events("", id)->at(2)["message"], "The job waits: write: No space left on device");
}

// The record cannot be written: a folder has its name.
TEST_F(TuningJobsTest, NothingIsDeletedBeforeTheEndIsStored) {
  options_.retry_time = std::chrono::milliseconds(100);
  script_ = "touch $RUN/checkpoint $RUN/ready; while [ ! -e $RUN/go ]; do sleep 0.02; done; echo why; exit 1";
  start();
  const std::string id = create(), record = store_->folder() + "/" + id + ".json";
  EXPECT_TRUE(until([&] { return fs::exists(run_folder(id) + "/ready"); }));
  fs::rename(record, record + "x"), fs::create_directory(record);
  write(run_folder(id) + "/go", "");
  EXPECT_TRUE(until([&] { return log_.find("cannot be stored") != log_.npos; }));
  EXPECT_TRUE(fs::exists(run_folder(id) + "/checkpoint"));
  EXPECT_EQ(job(id)["status"], "running");
  fs::remove(record);
  EXPECT_EQ(end(id), "why");
  EXPECT_TRUE(until([&] { return !fs::exists(run_folder(id) + "/checkpoint"); }));
}

}  // namespace
}  // namespace makar
