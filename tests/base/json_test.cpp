#include "base/json.h"

#include <gtest/gtest.h>

#include "scratch_folder.h"

namespace makar {
namespace {

std::string error_of_text(const std::string& text, const JsonLimits& limits = {}) {
  const auto json = parse_json(text, "place", limits);
  return json.ok() ? "accepted" : json.error().text();
}

TEST(Json, KeepsTheOrderOfKeysAndTheBitsOfNumbers) {
  const std::string text =
      R"({"z":1,"a":[true,null,"x"],"m":{"k":0.1,"big":9007199254740993,"least":5e-324,"most":18446744073709551615}})";
  const auto json = parse_json(text, "place");
  ASSERT_TRUE(json.ok()) << json.error().text();
  EXPECT_EQ(json->dump(), text);
  for (const double value : {0.1, 1.0 / 3, 1e300, 5e-324, -0.0})
    EXPECT_EQ(parse_json(Json(value).dump(), "place")->get<double>(), value);
}

TEST(Json, DumpIndentsEscapesAndReplacesInvalidUtf8) {
  const Json value = {{"a", {1, "\u00e9"}}, {"e", Json::object()}};
  EXPECT_EQ(value.dump(), "{\"a\":[1,\"\u00e9\"],\"e\":{}}");
  EXPECT_EQ(value.dump(-1, ' ', true), "{\"a\":[1,\"\\u00e9\"],\"e\":{}}");
  EXPECT_EQ(value.dump(1, '\t'), "{\n\t\"a\": [\n\t\t1,\n\t\t\"\u00e9\"\n\t],\n\t\"e\": {}\n}");
  EXPECT_EQ(Json::array({1}).dump(0), "[\n1\n]");
  EXPECT_THROW((void)Json("\xff").dump(), Json::type_error);
  EXPECT_EQ(dump(Json("a\xff")), "\"a\uFFFD\"");
}

TEST(Json, ErrorsNameThePlaceAndTheByte) {
  EXPECT_NE(error_of_text("{\"a\": 1,}").find("place: byte 9"), std::string::npos)
      << error_of_text("{\"a\": 1,}");
  for (const char* text :
       {"", " ", "{", "[1, 2", "nul", "01", "\"open", "[1] 2", "{a: 1}", "\"\xff\"", "1e999"})
    EXPECT_NE(error_of_text(text), "accepted") << text;
  EXPECT_NE(error_of_text(std::string("[1]\0[2]", 7)).find("zero byte"), std::string::npos);
  // A long token is quoted in part only, and the message is printable.
  const std::string message = error_of_text("{\"a\": \xc3\xa9" + std::string(100000, 'x'));
  EXPECT_LT(message.size(), 400u);
  for (const char c : message) EXPECT_TRUE(c >= ' ' && c < 127) << message;
}

TEST(Json, RejectsAKeyGivenTwiceAtAnyDepth) {
  EXPECT_NE(error_of_text(R"({"a":1,"b":2,"a":3})").find("'a'"), std::string::npos)
      << error_of_text(R"({"a":1,"b":2,"a":3})");
  EXPECT_NE(error_of_text(R"([{"x":{"k":1,"k":1}}])"), "accepted");
  EXPECT_EQ(error_of_text(R"([{"k":1},{"k":1}])"), "accepted");
  std::string many = "{";
  for (int i = 0; i < 20000; ++i) many += "\"" + std::to_string(i) + "\":0,";
  EXPECT_EQ(error_of_text(many + "\"last\":0}"), "accepted");
  EXPECT_NE(error_of_text(many + "\"19999\":0}"), "accepted");
}

TEST(Json, LimitsBytesAndDepth) {
  JsonLimits limits;
  limits.bytes = 10;
  EXPECT_EQ(error_of_text("[1,2,3,45]", limits), "accepted");
  EXPECT_NE(error_of_text("[1,2,3,456]", limits).find("limit is 10"), std::string::npos);
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(error_of_text(nested(64)), "accepted");
  EXPECT_NE(error_of_text(nested(65)), "accepted");
  EXPECT_NE(error_of_text(nested(1000000)).find("deeper than 64"), std::string::npos);
}

TEST(Json, ReadsFiles) {
  ScratchFolder folder;
  EXPECT_EQ((*read_json(folder.write("a.json", "{\"a\": [1]}")))["a"][0], 1);
  const auto missing = read_json(folder / "missing.json");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, Error::Kind::kNotFound);
  const auto damaged = read_json(folder.write("b.json", "{"));
  ASSERT_FALSE(damaged.ok());
  EXPECT_NE(damaged.error().text().find("b.json: byte"), std::string::npos);
}

}  // namespace
}  // namespace makar
