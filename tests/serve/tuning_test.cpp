// Fine-tuning jobs of a server: how they end, limits, restarts and changed bases. The processes are shell
// scripts.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scratch_folder.h"
#include "serve/tuning/job.h"
#include "serve/tuning/job_process.h"
#include "serve/tuning/tuning_jobs.h"
#include "tuning_files.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

// A server whose jobs are shell scripts; $RUN is the folder of the run.
class TuningJobsTest : public testing::Test {
 protected:
  TuningJobsTest() : base_(scratch_.path() + "/base") {
    write_text(base_, "base");
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
  write_text(checkpoint, "{}");  // the last act of its process
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
  write_text(base_, "another base");
  EXPECT_NE(check_().error().text().find("have changed since the training"), std::string::npos);
  write_text(base_, "base");
  EXPECT_TRUE(check_().ok()) << "the same bytes";
  restart();
  EXPECT_NE(*read_file(record), before) << "the next server need not read the base";
  write_text(base_, "another base");
  restart();
  EXPECT_EQ(published_, "");
  EXPECT_NE(log_.find("have changed since the training"), std::string::npos) << log_;
  EXPECT_EQ(jobs_->events("", id)->at(0)["level"], "warn");
  write_text(base_, "base");
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
  write_text(base_, "another base");
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
  write_text(base_, "base");
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
    write_text(path, dump(record));
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
    write_text(path, dump(damaged));
    log_.clear();
    start();
    EXPECT_FALSE(jobs_->find("", id).ok()) << patch;
    EXPECT_NE(log_.find(id + ".json is left out"), std::string::npos) << log_;
    stop();
    EXPECT_EQ(*read_file(path), dump(damaged));
  }
  write_text(path, dump(record));
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
  write_text(run_folder(id) + "/go", "");
  EXPECT_TRUE(until([&] { return log_.find("cannot be stored") != log_.npos; }));
  EXPECT_TRUE(fs::exists(run_folder(id) + "/checkpoint"));
  EXPECT_EQ(job(id)["status"], "running");
  fs::remove(record);
  EXPECT_EQ(end(id), "why");
  EXPECT_TRUE(until([&] { return !fs::exists(run_folder(id) + "/checkpoint"); }));
}

}  // namespace
}  // namespace makar
