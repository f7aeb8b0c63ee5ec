// Conversations about images: image placeholders in messages, and records that do not fit.
#include "train/image_text.h"

#include <gtest/gtest.h>

namespace makar {
namespace {

Json message(const Json& content) { return {{"role", "user"}, {"content", content}}; }

TEST(ImageText, PlaceholdersAreReplacedByImages) {
  const auto kinds = [](const Json& content, std::vector<std::string> images) -> std::string {
    const auto out = messages_in_parts(Json::array({message(content)}), images);
    if (!out.ok()) return "error: " + out.error().message;
    std::string text;
    for (const Json& part : (*out)[0]["content"])
      text += part["type"] == "image" ? "[image]" : "(" + part["text"].get<std::string>() + ")";
    for (const std::string& name : images) text += " " + name;
    return text;
  };
  EXPECT_EQ(kinds("<image>\nwhat?", {"a"}), "[image](what?) a");
  EXPECT_EQ(kinds("what?", {"a", "b"}), "[image][image](what?) a b");
  EXPECT_EQ(kinds("x\n<image>\ny<image>", {"a", "b"}), "(x)[image](y)[image] a b");
  EXPECT_EQ(kinds("no image", {}), "(no image)");
  EXPECT_EQ(kinds({{{"type", "image"}, {"image", "c"}}, {{"type", "text"}, {"text", "y"}}}, {}),
            "[image](y) c");
  EXPECT_EQ(kinds(Json(), {}), "");
  EXPECT_EQ(kinds("<image>", {}), "error: has 1 image placeholders (<image>) for 0 images");
  EXPECT_EQ(kinds("<image>", {"a", "b"}), "error: has 1 image placeholders (<image>) for 2 images");
  for (const char* hostile :
       {R"([{"type": 3}])", R"([{"type": "text"}])", R"([{"type": "text", "text": 5}])", R"([7])", R"([[]])",
        R"([{"type": "video"}])", R"([{"type": "image_url", "image_url": "x"}])", R"([null])"})
    EXPECT_TRUE(kinds(Json::parse(hostile), {}).starts_with("error: a part of a message must")) << hostile;
  EXPECT_EQ(kinds(Json::parse(R"([{"type": "image", "image": 4}])"), {}),
            "error: has 1 image placeholders (<image>) for 0 images");
}

TEST(ImageText, TemplatesWithoutImagesGetTexts) {
  std::vector<std::string> none, one = {"a"};
  const auto plain = messages_without_images(*messages_in_parts(Json::array({message("hi")}), none));
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ((*plain)[0]["content"], "hi");
  EXPECT_FALSE(messages_without_images(*messages_in_parts(Json::array({message("hi")}), one)).ok());
}

}  // namespace
}  // namespace makar
