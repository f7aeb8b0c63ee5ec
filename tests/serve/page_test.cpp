// The data of the page without a socket: conversations, preferences, runs, hostile requests.
#include "serve/page/page.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/file.h"
#include "scratch_folder.h"
#include "serve/page/agents.h"
#include "serve/page/assets.h"
#include "serve/page/runs.h"

namespace makar {
namespace {

class PageTest : public testing::Test {
 protected:
  PageTest()
      : page_({folder_ / "deep/store.db", folder_ / "runs", folder_ / "ratings", folder_ / "results"}) {}

  Result<HttpResponse> send_request(const std::string& method, const std::string& target,
                                    const std::string& body = "") {
    HttpRequest request;
    const size_t mark = target.find('?');
    request.method = method, request.path = target.substr(0, mark), request.body = body;
    if (mark != std::string::npos) request.query = target.substr(mark + 1);
    auto response = page_.answer(request, owner_);
    // The pieces of a long body, requested as a connection does.
    if (response.ok() && response->body_source)
      for (bool more = true; more;)
        response->body_source([&](const std::optional<std::string>& piece) {
          response->body += *piece, more = !piece->empty();
        });
    return response;
  }
  // The JSON of a response that must be a success.
  Json expect_ok(const std::string& method, const std::string& target, const Json& body = nullptr) {
    const auto response = send_request(method, target, body.is_null() ? "" : body.dump());
    EXPECT_TRUE(response.ok()) << target << ": " << (response.ok() ? "" : response.error().text());
    return response.ok() ? *parse_json(response->body, "body") : Json();
  }
  // The kind of the error; "ok" for a success.
  std::string error_kind(const std::string& method, const std::string& target, const std::string& body = "") {
    const auto response = send_request(method, target, body);
    return response.ok() ? "ok" : name(response.error().kind);
  }
  int64_t add_message(int64_t conversation, int64_t parent, const std::string& role,
                      const std::string& content) {
    return expect_ok("POST", "/makar/conversations/" + std::to_string(conversation) + "/messages",
                     {{"parent", parent}, {"role", role}, {"content", content}})["id"];
  }

  ScratchFolder folder_;
  Page page_;
  std::string owner_;
};

TEST_F(PageTest, RatingsAreBlindAndStored) {
  ASSERT_TRUE(make_folder(folder_ / "ratings").ok());
  ASSERT_TRUE(
      write_file(
          folder_ / "ratings/s.jsonl",
          "{\"prompt\":\"q\",\"answers\":[\"one\",\"two\",\"three\"],\"systems\":[\"a\",\"b\",\"c\"]}\n"
          "{\"prompt\":\"r\",\"answers\":[\"x\"]}\n")
          .ok());
  ASSERT_TRUE(write_file(folder_ / "ratings/broken.jsonl", "{\n").ok());
  const Json list = expect_ok("GET", "/makar/ratings");
  ASSERT_EQ(list["studies"].size(), 2u);
  EXPECT_TRUE(list["studies"][0].contains("error"));
  EXPECT_EQ(list["studies"][1]["items"], 2);
  const Json first = expect_ok("POST", "/makar/ratings/s/next", {{"rater", "ann"}});
  EXPECT_EQ(first["item"], 0);
  EXPECT_EQ(first["kind"], "rank");
  EXPECT_EQ(first.dump().find("systems"), std::string::npos);
  // Ranks are in the order of display: the answer displayed first is ranked third.
  Json ranks = {3, 1, 2};
  EXPECT_EQ(expect_ok("POST", "/makar/ratings/s", {{"rater", "ann"}, {"item", 0}, {"ranks", ranks}})["ok"],
            true);
  const auto stored = read_file(folder_ / "ratings/s.ratings.jsonl");
  const Json line = *parse_json(*stored, "line");
  const std::vector<std::string> names = {"one", "two", "three"};
  for (size_t position = 0; position < 3; ++position) {
    const auto at =
        std::find(names.begin(), names.end(), first["answers"][position].get<std::string>()) - names.begin();
    EXPECT_EQ(line["ranks"][static_cast<size_t>(at)], ranks[position]);
  }
  EXPECT_EQ(expect_ok("POST", "/makar/ratings/s/next", {{"rater", "ann"}})["item"], 1);
  EXPECT_EQ(expect_ok("POST", "/makar/ratings/s/next", {{"rater", "bob"}})["item"], 0);
  EXPECT_EQ(expect_ok("POST", "/makar/ratings/s/next", {{"rater", "bob"}, {"after", 0}})["item"], 1);
  // A line that a crash cut off is replaced by the next one.
  std::ofstream(folder_ / "ratings/s.ratings.jsonl", std::ios::app) << "{\"rater\":\"cu";
  expect_ok("POST", "/makar/ratings/s",
            {{"rater", "ann"}, {"item", 1}, {"scales", {{{"usefulness", 5}}}}, {"critique", "fine"}});
  const Json done = expect_ok("POST", "/makar/ratings/s/next", {{"rater", "ann"}});
  EXPECT_FALSE(done.contains("item"));
  EXPECT_EQ(done["done"], 2);
  EXPECT_EQ(expect_ok("GET", "/makar/ratings/s/report")["ratings"], 2);
  const auto lines = send_request("GET", "/makar/ratings/s/preferences.jsonl");
  ASSERT_TRUE(lines.ok());
  EXPECT_EQ(std::count(lines->body.begin(), lines->body.end(), '\n'), 3);
  for (const char* wrong :
       {"{\"rater\":\"ann\",\"item\":5}", "{\"rater\":\"ann\",\"item\":0,\"ranks\":[1,2]}",
        "{\"rater\":\"\",\"item\":0,\"ranks\":[1,2,3]}", "[]"})
    EXPECT_NE(error_kind("POST", "/makar/ratings/s", wrong), "ok") << wrong;
  for (const char* bad_path :
       {"/makar/ratings/..%2fs/next", "/makar/ratings/s.ratings/next", "/makar/ratings/none/next"})
    EXPECT_NE(error_kind("POST", bad_path, "{\"rater\":\"ann\"}"), "ok") << bad_path;
}

TEST_F(PageTest, ShowsResultsOfEvaluations) {
  ASSERT_TRUE(make_folder(folder_ / "results/base").ok());
  ASSERT_TRUE(
      write_file(folder_ / "results/base/results.json",
                 R"({"results":{"t":{"acc,none":0.5,"acc_stderr,none":0.1,"alias":"t","ppl,none":"NaN"}},
                            "higher_is_better":{"t":{"acc":true,"ppl":false}},"n-samples":{"t":{"effective":7}},
                            "config":{"model_args":{"model":"m"}}})")
          .ok());
  EXPECT_EQ(expect_ok("GET", "/makar/results")["results"][0]["name"], "base");
  const Json found = expect_ok("GET", "/makar/results/base");
  EXPECT_EQ(found["model"], "m");
  ASSERT_EQ(found["rows"].size(), 2u);
  EXPECT_EQ(found["rows"][0]["value"], 0.5);
  EXPECT_EQ(found["rows"][0]["stderr"], 0.1);
  EXPECT_EQ(found["rows"][0]["documents"], 7);
  EXPECT_TRUE(found["rows"][1]["value"].is_null());
  EXPECT_EQ(found["rows"][1]["higher_is_better"], false);
  for (const char* bad_path : {"/makar/results/..", "/makar/results/none", "/makar/results/.hidden"})
    EXPECT_NE(error_kind("GET", bad_path), "ok") << bad_path;
}

TEST_F(PageTest, EditsRemovesAndFindsMessages) {
  owner_ = "anna";
  const int64_t id = expect_ok("POST", "/makar/conversations", {{"title", "first"}})["id"];
  const std::string at = "/makar/conversations/" + std::to_string(id);
  const int64_t user = add_message(id, 0, "user", "hello"),
                one = add_message(id, user, "assistant", "100% of _it_");
  const int64_t two = add_message(id, user, "assistant", "a second"),
                below = add_message(id, two, "user", "and then?");
  const auto message = [](int64_t m) { return "/makar/messages/" + std::to_string(m); };
  expect_ok("POST", message(one), {{"content", "Better \\ words"}, {"meta", {{"edited", true}}}});
  const Json edited = expect_ok("GET", at)["messages"][1];
  EXPECT_EQ(edited["content"], "Better \\ words");
  EXPECT_EQ(edited["meta"], (Json{{"edited", true}}));
  EXPECT_EQ(error_kind("POST", message(one), "{}"), "invalid");
  EXPECT_EQ(error_kind("POST", message(one), Json{{"content", std::string((1 << 20) + 1, 'x')}}.dump()),
            "limit");
  const auto found = [&](const std::string& text) {
    return expect_ok("POST", "/makar/search", {{"text", text}})["found"];
  };
  EXPECT_EQ(found("WORDS"), (Json::array({{{"id", id}, {"excerpt", "Better \\ words"}}})));
  EXPECT_EQ(found("\\ w").size(), 1U);
  for (const char* absent : {"%", "_", "100"}) EXPECT_TRUE(found(absent).empty()) << absent;
  // Removing the second answer removes everything below it, and the first is displayed.
  owner_ = "ben";
  EXPECT_TRUE(found("words").empty());
  EXPECT_EQ(error_kind("DELETE", message(two)), "not found");
  EXPECT_EQ(error_kind("POST", message(two), R"({"content":"mine"})"), "not found");
  owner_ = "anna";
  EXPECT_EQ(expect_ok("DELETE", message(two))["leaf"], one);
  EXPECT_EQ(error_kind("DELETE", message(below)), "not found");
  const Json remaining = expect_ok("GET", at);
  EXPECT_EQ(remaining["messages"].size(), 2U);
  EXPECT_EQ(remaining["leaf"], one);
  EXPECT_EQ(expect_ok("DELETE", message(user))["leaf"], 0);
  EXPECT_TRUE(expect_ok("GET", at)["messages"].empty());
}

TEST_F(PageTest, EachOwnerSeesOnlyItsOwnData) {
  owner_ = "anna";
  const int64_t id = expect_ok("POST", "/makar/conversations", {{"title", "mine"}})["id"];
  const int64_t user = add_message(id, 0, "user", "hello"), first = add_message(id, user, "assistant", "hi");
  const int64_t second = add_message(id, user, "assistant", "good day");
  const Json choice = {{"chosen", first}, {"rejected", {second}}};
  const std::string at = "/makar/conversations/" + std::to_string(id);
  expect_ok("POST", "/makar/preferences", choice);
  for (const char* other : {"ben", ""}) {
    owner_ = other;
    EXPECT_TRUE(expect_ok("GET", "/makar/conversations")["conversations"].empty());
    for (const std::string& path : {at, at + "/markdown"}) EXPECT_EQ(error_kind("GET", path), "not found");
    EXPECT_EQ(error_kind("POST", at, R"({"title":"yours"})"), "not found");
    EXPECT_EQ(error_kind("POST", at + "/messages", R"({"role":"user","content":"x"})"), "not found");
    EXPECT_EQ(error_kind("POST", "/makar/messages/" + std::to_string(first), R"({"rating":1})"), "not found");
    EXPECT_NE(error_kind("POST", "/makar/preferences", choice.dump()), "ok");
    EXPECT_EQ(send_request("GET", "/makar/preferences.jsonl")->body, "");
    EXPECT_EQ(error_kind("DELETE", at), "not found");
  }
  owner_ = "anna";
  EXPECT_EQ(expect_ok("GET", at)["title"], "mine");
  EXPECT_NE(send_request("GET", "/makar/preferences.jsonl")->body.find("good day"), std::string::npos);
}

TEST_F(PageTest, StoresATreeOfMessages) {
  const int64_t id =
      expect_ok("POST", "/makar/conversations", {{"title", "One"}, {"system", "Be kind."}})["id"];
  const std::string at = "/makar/conversations/" + std::to_string(id);
  const int64_t user = add_message(id, 0, "user", "hello"), first = add_message(id, user, "assistant", "hi");
  const int64_t second = add_message(id, user, "assistant", "good day");
  Json all = expect_ok("GET", at);
  EXPECT_EQ(all["messages"].size(), 3u);
  EXPECT_EQ(all["leaf"], second);
  EXPECT_EQ(all["messages"][1]["parent"], user);
  expect_ok("POST", at, {{"leaf", first}, {"title", "Two"}, {"settings", {{"top_k", 3}}}});
  all = expect_ok("GET", at);
  EXPECT_EQ(all["leaf"], first);
  EXPECT_EQ(all["title"], "Two");
  EXPECT_EQ(all["settings"]["top_k"], 3);
  EXPECT_EQ(expect_ok("GET", "/makar/conversations")["conversations"][0]["messages"], 3);
  const auto text = send_request("GET", at + "/markdown");
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->body, "# Two\n\n**System**\n\nBe kind.\n\n**You**\n\nhello\n\n**Assistant**\n\nhi\n");
  expect_ok("DELETE", at);
  EXPECT_EQ(error_kind("GET", at), "not found");
  EXPECT_EQ(error_kind("DELETE", at), "not found");
}

TEST_F(PageTest, DerivesPreferencesFromChoicesAndRatings) {
  const int64_t id = expect_ok("POST", "/makar/conversations", {{"system", "S"}})["id"];
  const int64_t user = add_message(id, 0, "user", "Q"), a = add_message(id, user, "assistant", "A"),
                b = add_message(id, user, "assistant", "B"), c = add_message(id, user, "assistant", "C");
  const auto lines = [&] {
    std::vector<Json> out;
    const auto response = send_request("GET", "/makar/preferences.jsonl");
    EXPECT_TRUE(response.ok());
    for (size_t at = 0, end; (end = response->body.find('\n', at)) != std::string::npos; at = end + 1)
      out.push_back(*parse_json(response->body.substr(at, end - at), "line"));
    return out;
  };
  EXPECT_TRUE(lines().empty());
  expect_ok("POST", "/makar/preferences", {{"chosen", b}, {"rejected", {a}}});
  ASSERT_EQ(lines().size(), 1u);
  const Json line = lines()[0];
  EXPECT_EQ(line["prompt"],
            Json::parse(R"([{"role":"system","content":"S"},{"role":"user","content":"Q"}])"));
  EXPECT_EQ(line["chosen"][0]["content"], "B");
  EXPECT_EQ(line["rejected"][0]["content"], "A");
  // A new choice replaces the old one; ratings make separate pairs.
  expect_ok("POST", "/makar/preferences", {{"chosen", a}, {"rejected", {b}}});
  ASSERT_EQ(lines().size(), 1u);
  EXPECT_EQ(lines()[0]["chosen"][0]["content"], "A");
  expect_ok("POST", "/makar/messages/" + std::to_string(c), {{"rating", 1}});
  EXPECT_EQ(lines().size(), 1u);
  expect_ok("POST", "/makar/messages/" + std::to_string(b), {{"rating", -1}});
  EXPECT_EQ(lines().size(), 2u);
  EXPECT_EQ(
      error_kind("POST", "/makar/preferences",
                 R"({"chosen":)" + std::to_string(a) + R"(,"rejected":[)" + std::to_string(user) + "]}"),
      "invalid");
  EXPECT_EQ(error_kind("POST", "/makar/preferences", R"({"chosen":1e300,"rejected":[1]})"), "invalid");
  EXPECT_EQ(error_kind("POST", "/makar/messages/" + std::to_string(user), R"({"rating":1})"), "not found");
}

TEST_F(PageTest, OpensAStoreOfTheFirstVersion) {
  const std::string path = folder_ / "first.db";
  {
    const auto database = Database::open(path);
    ASSERT_TRUE(database.ok());
    const Status created = database->script(R"(
CREATE TABLE conversations(
  id INTEGER PRIMARY KEY, owner TEXT NOT NULL, title TEXT NOT NULL, system TEXT NOT NULL, settings TEXT NOT NULL,
  leaf INTEGER NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL);
CREATE INDEX conversations_updated ON conversations(owner, updated);
CREATE TABLE messages(
  id INTEGER PRIMARY KEY, conversation INTEGER NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
  parent INTEGER NOT NULL, role TEXT NOT NULL, content TEXT NOT NULL, meta TEXT NOT NULL,
  rating INTEGER NOT NULL, created INTEGER NOT NULL);
CREATE INDEX messages_conversation ON messages(conversation);
CREATE TABLE preferences(
  chosen INTEGER NOT NULL REFERENCES messages(id) ON DELETE CASCADE,
  rejected INTEGER NOT NULL REFERENCES messages(id) ON DELETE CASCADE,
  created INTEGER NOT NULL, PRIMARY KEY(chosen, rejected));
CREATE INDEX preferences_rejected ON preferences(rejected);
INSERT INTO conversations VALUES(1, 'anna', 'old', '', '{}', 1, 0, 0);
INSERT INTO messages VALUES(1, 1, 0, 'user', 'héllo', '{}', 0, 0);
PRAGMA user_version=1;
)");
    ASSERT_TRUE(created.ok()) << created.error().text();
  }
  const auto store = Store::open(path);
  ASSERT_TRUE(store.ok()) << store.error().text();
  EXPECT_EQ(*(*store)->bytes_of("anna", 1), 8);  // UTF-8 of the text and "{}"
  EXPECT_EQ(*(*store)->bytes_of("bert", 1), 0);
  ASSERT_TRUE((*store)->add("anna", 1, {1, "assistant", "12345", Json::object()}).ok());
  EXPECT_EQ(*(*store)->bytes_of("anna", 1), 15);
  ASSERT_TRUE((*store)->edit("anna", 1, MessageChange{"hi", std::nullopt}).ok());
  EXPECT_EQ(*(*store)->bytes_of("anna", 1), 11);
  EXPECT_EQ((*(*store)->conversation("anna", 1))["messages"].size(), 2U);
  ASSERT_TRUE((*store)->remove_message("anna", 2).ok());
  EXPECT_EQ(*(*store)->bytes_of("anna", 1), 4);
}

TEST_F(PageTest, RejectsValuesOutOfRange) {
  const int64_t id = expect_ok("POST", "/makar/conversations", Json::object())["id"];
  const std::string at = "/makar/conversations/" + std::to_string(id), more = at + "/messages";
  const auto message = [](const std::string& content) {
    return Json{{"role", "user"}, {"content", content}}.dump();
  };
  EXPECT_EQ(error_kind("POST", more, message(std::string(Store::kMaxContentBytes + 1, 'x'))), "limit");
  EXPECT_EQ(error_kind("POST", more, message(std::string(Store::kMaxContentBytes, 'x'))), "ok");
  EXPECT_EQ(error_kind("POST", more, R"({"role":"system","content":""})"), "invalid");
  EXPECT_EQ(error_kind("POST", more, R"({"role":"user","content":"","parent":999})"), "not found");
  EXPECT_EQ(error_kind("POST", more, R"({"role":"user","content":"","parent":-1})"), "invalid");
  EXPECT_EQ(error_kind("POST", more, R"({"role":"user","content":7})"), "invalid");
  EXPECT_EQ(error_kind("POST", more, R"({"role":"user","content":"","meta":[]})"), "invalid");
  EXPECT_EQ(error_kind("POST", at, Json{{"title", std::string(Store::kMaxTitleBytes + 1, 't')}}.dump()),
            "limit");
  EXPECT_EQ(error_kind("POST", at, R"({"leaf":999})"), "not found");
  EXPECT_EQ(error_kind("POST", at, "[1"), "invalid");
  EXPECT_EQ(error_kind("GET", "/makar/conversations/1;DROP TABLE messages"), "invalid");
  EXPECT_EQ(error_kind("GET", "/makar/conversations/99999999999999999999"), "invalid");
  for (const char* path : {"/makar/", "/makar/x", "/makar//", "/makar/conversations/1/2/3", "/makar/%zz"})
    EXPECT_EQ(error_kind("GET", path), "not found") << path;
  // A conversation has a limited length.
  std::string last = "ok";
  for (int i = 0; i < 40 && last == "ok"; ++i)
    last = error_kind("POST", more, message(std::string(1 << 20, 'x')));
  EXPECT_EQ(last, "limit");
  // Quotes and arbitrary bytes are returned unchanged.
  const std::string odd = "'\"; -- \xF0\x9F\x90\x91 \x01";
  const int64_t other = expect_ok("POST", "/makar/conversations", {{"title", odd}})["id"];
  EXPECT_EQ(expect_ok("GET", "/makar/conversations/" + std::to_string(other))["title"], odd);
}

TEST_F(PageTest, SurvivesRestartsAndConcurrentUse) {
  const int64_t id = expect_ok("POST", "/makar/conversations", {{"title", "kept"}})["id"];
  Page other({folder_ / "deep/store.db", ""});
  HttpRequest request;
  request.method = "GET", request.path = "/makar/conversations/" + std::to_string(id);
  EXPECT_TRUE(other.answer(request, "").ok());
  Page none({"none", ""});
  const auto refused = none.answer(request, "");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, Error::Kind::kUnsupported);
  folder_.write("broken.db",
                "this is not a database, and it is longer than the header of a database file....");
  Page broken({folder_ / "broken.db", ""});
  EXPECT_FALSE(broken.open_store().ok());
  EXPECT_FALSE(broken.answer(request, "").ok());
}

TEST_F(PageTest, ReadsRunsIncrementally) {
  ASSERT_TRUE(make_folder(folder_ / "runs").ok());
  ASSERT_TRUE(make_folder(folder_ / "runs/a b").ok());
  ASSERT_TRUE(make_folder(folder_ / "runs/empty").ok());
  const std::string log = "runs/a b/log.jsonl";
  folder_.write(
      log,
      "{\"step\":1,\"total\":40,\"loss\":2.5,\"lr\":0.1,\"seconds\":1,\"tokens\":7}\nnonsense\n{\"step\":1,"
      "\"validation\":{\"loss\":3,\"x\":\"y\"}}\n{\"step\":1,\"sample\":\"hi\"}\n{\"step\":2,\"lo");
  EXPECT_EQ(expect_ok("GET", "/makar/runs")["runs"].size(), 1u);
  const Json first = expect_ok("GET", "/makar/runs/a%20b");
  EXPECT_EQ(first["steps"], Json::parse("[[1,2.5,null,0.1,1,7]]"));
  EXPECT_EQ(first["validations"][0]["figures"], Json::parse(R"({"loss":3})"));
  EXPECT_EQ(first["samples"][0]["text"], "hi");
  EXPECT_EQ(first["total"], 40);
  EXPECT_FALSE(first["more"].get<bool>());
  const auto from = [&](const Json& piece) {
    return "/makar/runs/a%20b?offset=" + piece["offset"].dump() + "&file=" + piece["file"].dump();
  };
  EXPECT_TRUE(expect_ok("GET", from(first))["steps"].empty());
  std::ofstream(folder_ / log, std::ios::app) << "ss\":null}\n";
  const Json second = expect_ok("GET", from(first));
  EXPECT_EQ(second["steps"], Json::parse("[[2,null,null,null,null,null]]"));
  ASSERT_TRUE(write_file(folder_ / log, "{\"step\":1,\"loss\":9}\n").ok());
  const Json restarted_run = expect_ok("GET", from(second));
  EXPECT_TRUE(restarted_run["restarted"].get<bool>());
  EXPECT_EQ(restarted_run["steps"][0][1], 9);
  folder_.write("secret", "");
  for (const char* name :
       {"..", ".", "%2e%2e", "..%2f..%2fsecret", "a%20b%2f..%2fa%20b", "%00", "missing", ""})
    EXPECT_EQ(error_kind("GET", std::string("/makar/runs/") + name), "not found") << name;
  EXPECT_EQ(error_kind("GET", "/makar/runs/a%20b?offset=-1"), "invalid");
  EXPECT_EQ(error_kind("GET", "/makar/runs/a%20b?offset=x"), "invalid");
}

TEST(AgentTraces, OlderNamesAreRead) {
  const auto lines = read_trace("{\"ask\":{\"number\":1}}\n{\"said\":{\"number\":1}}\n", "old", SIZE_MAX);
  ASSERT_TRUE(lines.ok() && lines->size() == 2);
  EXPECT_EQ((*lines)[0], (Json{{"request", {{"number", 1}}}}));
  EXPECT_EQ((*lines)[1], (Json{{"reply", {{"number", 1}}}}));
  EXPECT_TRUE(waiting_request(*lines).is_null());
}

TEST(PageFiles, AreCompressedWithEtagAndStrictPolicy) {
  HttpRequest request;
  request.method = "GET", request.path = "/";
  const HttpResponse plain = page_file(request);
  EXPECT_NE(plain.body.find("<!doctype html>"), std::string::npos);
  const auto header = [](const HttpResponse& r, const std::string& name) {
    for (const auto& [key, value] : r.headers)
      if (key == name) return value;
    return std::string();
  };
  EXPECT_NE(header(plain, "content-security-policy").find("script-src 'self'"), std::string::npos);
  request.headers = {{"accept-encoding", "br, gzip"}};
  const HttpResponse compressed = page_file(request);
  EXPECT_EQ(header(compressed, "content-encoding"), "gzip");
  EXPECT_EQ(compressed.body.substr(0, 2), "\x1f\x8b");
  request.headers.emplace_back("if-none-match", header(plain, "etag"));
  const HttpResponse cached = page_file(request);
  EXPECT_EQ(cached.status, 304);
  EXPECT_TRUE(cached.body.empty());
}

}  // namespace
}  // namespace makar
