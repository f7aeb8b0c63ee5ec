// Records of fine-tuning jobs: changes of status, whose turn it is, limits of an owner, and what a killed
// server leaves behind.
#include "serve/tuning/tuning_records.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <random>
#include <set>

#include "scratch_folder.h"
#include "serve/tuning/job.h"
#include "tuning_files.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

// Records in a scratch folder, and jobs in them.
class TuningRecordsTest : public testing::Test {
 protected:
  TuningRecordsTest() : folder_(scratch_.path()), data_(folder_ + "/file-1.data") {
    write_text(data_, "{}\n");
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
  write_text(adapter, "weights");
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
  write_text(half_deleted, "weights"), write_text(kept, "weights"),
      write_text(orphan + "/run/adapter", "weights");
  write_text(damaged + "/run/adapter", "weights"), write_text(damaged + ".json", "{");
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
          write_text(records_->folder(id).run() + "/adapter", "weights");
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

}  // namespace
}  // namespace makar
