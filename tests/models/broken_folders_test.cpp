// Model folders broken in one place each: every one gives an error that names the file and the place, quickly
// and without large allocations. Nothing throws, nothing crashes.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <set>

#include "models/broken_cases.h"
#include "models/inspect.h"
#include "models/small_models.h"
#include "sanitized.h"
#include "scratch_folder.h"

namespace makar {
namespace {

using namespace broken;

class BrokenFolders : public testing::Test {
 protected:
  BrokenFolders() {
    for (const char* family : {"llama", "gpt2", "bert", "t5", "vit", "mixtral", "gemma2", "bart"})
      write(family, small_config(family), size_t{1} << 30);
    write("shards", small_config("llama"), 30000);
    write(
        "neox",
        Json::parse(
            R"({"model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2,
      "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 60, "rotary_pct": 0.5})"),
        size_t{1} << 30);
  }
  void write(const std::string& name, const Json& config, size_t shard) {
    const LoadedModel model = small_model(config);
    const Status status = save_model(scratch_ / name, *model.model, *model.family, shard);
    ASSERT_TRUE(status.ok()) << status.error().text();
  }
  std::string make_broken(const Case& c, size_t index) {
    const std::string folder = scratch_ / ("case" + std::to_string(index));
    std::filesystem::copy(scratch_ / c.base, folder);
    c.edit(folder);
    return folder;
  }
  ScratchFolder scratch_;
};

TEST_F(BrokenFolders, TheIntactFoldersLoad) {
  for (const auto& entry : std::filesystem::directory_iterator(scratch_.path())) {
    const auto loaded = load_model(entry.path().string());
    EXPECT_TRUE(loaded.ok()) << loaded.error().text();
    const auto inspection = inspect_model(entry.path().string());
    EXPECT_TRUE(inspection.ok() && inspection->warning.empty());
  }
}

TEST_F(BrokenFolders, EveryErrorNamesFileAndPlace) {
  std::vector<Case> table;
  for (const auto& part : {config_files(), config_fields(), weight_files(), tensors(), shards()})
    table.insert(table.end(), part.begin(), part.end());
  ASSERT_GE(table.size(), 100u);
  std::set<std::string> names;
  for (const Case& c : table) EXPECT_TRUE(names.insert(c.name).second) << "two cases are called " << c.name;
  for (const auto& entry : std::filesystem::directory_iterator(scratch_.path()))
    ASSERT_TRUE(load_model(entry.path().string()).ok());

  struct rusage before {
  }, after{};
  double slowest_ms = 0;
  std::string slowest;
  long growth = 0;
  for (size_t i = 0; i < table.size(); ++i) {
    const Case& c = table[i];
    SCOPED_TRACE(c.name);
    const std::string folder = make_broken(c, i);
    ::getrusage(RUSAGE_SELF, &before);
    const auto start = std::chrono::steady_clock::now();
    std::optional<Error> error;
    try {
      const auto loaded = load_model(folder);
      if (!loaded.ok()) error = loaded.error();
    } catch (const std::exception& e) {
      ADD_FAILURE() << "threw: " << e.what();
    }
    const double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    ::getrusage(RUSAGE_SELF, &after);
    growth += after.ru_maxrss - before.ru_maxrss;
    if (ms > slowest_ms) slowest_ms = ms, slowest = c.name;
    if (!error) {
      ADD_FAILURE() << "it loads";
      continue;
    }
    const std::string text = error->text();
    EXPECT_EQ(text.rfind(scratch_.path(), 0), 0u) << text;
    EXPECT_LT(text.size(), folder.size() + 1000);
    for (const std::string& part : c.expected)
      EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in: " << text;
    const auto inspection = inspect_model(folder);
    if (c.config_is_valid)
      EXPECT_TRUE(inspection.ok() && !inspection->warning.empty());
    else
      EXPECT_TRUE(!inspection.ok() && inspection.error().text() == text);
    std::filesystem::remove_all(folder);
  }
  std::printf("%zu broken folders; the slowest took %.2f ms (%s); memory grew by %.1f MB\n", table.size(),
              slowest_ms, slowest.c_str(), static_cast<double>(growth) / 1024);
  if (test::kSanitized) return;
  EXPECT_LT(slowest_ms, 1000);  // the target is 100 ms; leave a margin for a busy machine
  EXPECT_LT(growth, 64 * 1024);
}

TEST_F(BrokenFolders, MissingFoldersAreErrors) {
  const auto text = [](const std::string& path) { return load_model(path).error().text(); };
  EXPECT_NE(text(scratch_ / "nowhere").find("no such file or folder"), std::string::npos);
  EXPECT_NE(text(scratch_.write("file", "x")).find("is a file; expected a model folder"), std::string::npos);
  EXPECT_NE(text("").find("no such file or folder"), std::string::npos);
  EXPECT_NE(text(scratch_ / std::string(5000, 'x')).find("no such file or folder"), std::string::npos);
  EXPECT_NE(text(scratch_ / std::string("a\0b", 3)).find("no such file or folder"), std::string::npos);
}

}  // namespace
}  // namespace makar
