// Real chat templates against renderings recorded from transformers. The files cannot be redistributed: they
// are read from MAKAR_GOLDEN_SHARED (default: ../shared/golden next to the project), and the test is skipped
// without them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "text/template/chat_template.h"

namespace makar {
namespace {

std::filesystem::path shared_golden() {
  if (const char* folder = std::getenv("MAKAR_GOLDEN_SHARED")) return folder;
  for (std::filesystem::path at = MAKAR_TEST_GOLDEN; at != at.root_path(); at = at.parent_path())
    if (std::filesystem::exists(at / "shared/golden/templates")) return at / "shared/golden";
  return "../shared/golden";
}

TEST(TemplateGolden, MatchesTransformers) {
  const auto folder = shared_golden() / "templates";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not available";
  int cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    auto file = read_json(entry.path().string());
    ASSERT_TRUE(file.ok()) << file.error().text();
    for (const Json& c : (*file)["cases"]) {
      auto t = ChatTemplate::parse((*file)["templates"][c["template"].get<std::string>()].get<std::string>(),
                                   entry.path().filename());
      ASSERT_TRUE(t.ok()) << t.error().text();
      for (const auto& [name, token] : (*file)["special_tokens"].items())
        t->set_token(name, token.get<std::string>());
      ChatInput input;
      input.messages = (*file)["conversations"][c["conversation"].get<std::string>()];
      if (c["tools"].get<bool>()) input.tools = (*file)["tools"];
      input.add_generation_prompt = c["add_generation_prompt"].get<bool>();
      input.variables["date_string"] = "26 Jul 2024";
      const auto r = t->render(input);
      ++cases;
      const std::string what = entry.path().filename().string() + " " + c.dump().substr(0, 120);
      if (c["rendered"].is_null()) {
        EXPECT_FALSE(r.ok()) << what;
      } else {
        ASSERT_TRUE(r.ok()) << what << ": " << r.error().text();
        EXPECT_EQ(r->text(), c["rendered"].get<std::string>()) << what;
      }
    }
  }
  EXPECT_GT(cases, 0);
}

}  // namespace
}  // namespace makar
