// The parts of a server without a socket: fields, dialects, admission.
#include <gtest/gtest.h>
#include <malloc.h>

#include "sanitized.h"
#include "serve/api/fields.h"
#include "serve/api/generation_request.h"
#include "serve/api/ranking.h"
#include "serve/api/response_store.h"
#include "serve/gate.h"
#include "serve/http/body_pool.h"
#include "serve/request_memory.h"
#include "serve/workers.h"

namespace makar {
namespace {

const std::vector<std::string> kTokens = {"a", "\xC3", "<|end|>"};

RequestContext context() { return {"m", {}, kTokens, 1, "id"}; }

Result<GenerationRequest> chat(const std::string& text) {
  MAKAR_TRY(const Json body, read_body(text));
  return read_chat_completion(body, context());
}

Result<GenerationRequest> completion(const std::string& text) {
  MAKAR_TRY(const Json body, read_body(text));
  return read_completion(body, context());
}

std::string place_of(const Result<GenerationRequest>& request) {
  return request.ok() ? "fine" : ApiError::of(request.error()).param.value_or("none");
}

TEST(ServeApi, NamesTheFieldThatIsWrong) {
  const std::string user = R"("messages":[{"role":"user","content":"x"}])";
  EXPECT_EQ(place_of(chat("{" + user + "}")), "fine");
  EXPECT_EQ(place_of(chat("{" + user + R"(,"temperature":null,"unheard_of":[1]})")), "fine");
  EXPECT_EQ(place_of(chat("{" + user + R"(,"temperature":"hot"})")), "temperature");
  EXPECT_EQ(place_of(chat("{" + user + R"(,"top_p":1.5})")), "top_p");
  EXPECT_EQ(place_of(chat("{" + user + R"(,"n":129})")), "n");
  EXPECT_EQ(place_of(chat("{" + user + R"(,"n":1e300})")), "n");
  EXPECT_EQ(place_of(chat("{" + user + R"(,"n":2,"best_of":1})")), "best_of");
  EXPECT_EQ(place_of(chat("{" + user + R"(,"best_of":4,"stream":true})")), "best_of");
  EXPECT_EQ(place_of(chat("{" + user + R"(,"max_tokens":0})")), "max_tokens");
  EXPECT_EQ(place_of(chat("{" + user + R"(,"top_logprobs":2})")), "top_logprobs");
  EXPECT_EQ(place_of(chat("{" + user + R"(,"stop":[1]})")), "stop[0]");
  EXPECT_EQ(place_of(chat("{" + user + R"(,"tool_choice":"required"})")), "tool_choice");
  EXPECT_EQ(place_of(chat("{" + user + R"(,"response_format":{"type":"xml"}})")), "response_format.type");
  EXPECT_EQ(place_of(chat(R"({"messages":[]})")), "messages");
  EXPECT_EQ(place_of(chat(R"({"messages":[{"role":"user"}]})")), "messages[0].content");
  EXPECT_EQ(place_of(chat(R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})")),
            "messages[0].content[0].image_url");
  EXPECT_EQ(place_of(chat(R"({"messages":[{"role":"user","content":[{"type":"image_url",
                "image_url":{"url":"http://localhost/x.png"}}]}]})")),
            "messages[0].content[0].image_url.url");
  EXPECT_EQ(place_of(chat(R"({"messages":[{"role":"user","content":[{"type":"image_url",
                "image_url":{"url":"data:;base64,AAAA"}},{"type":"input_audio"}]}]})")),
            "messages[0].content[1].type");
  // Errors of the layers below name the fields of the request, not flags of the command line.
  const auto request = completion(R"({"prompt":"a","min_tokens":8,"max_tokens":4})");
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(ApiError::of(request.error()).message, "min_tokens: 8 exceeds max_tokens (4)");
  EXPECT_EQ(place_of(completion(R"({"prompt":"a","min_tokens":8,"max_tokens":4})")), "min_tokens");
  EXPECT_EQ(place_of(completion("{}")), "prompt");
  EXPECT_EQ(place_of(completion(R"({"prompt":[[1],[-1]]})")), "prompt[1]");
  EXPECT_EQ(place_of(completion(R"({"prompt":"a","suffix":"b","echo":true})")), "echo");
  EXPECT_EQ(place_of(chat("[]")), "body");
  EXPECT_EQ(place_of(chat(std::string(100000, '['))), "body");
}

TEST(ServeApi, ReadsConversationsForTemplates) {
  const auto request = chat(R"({"messages":[{"role":"developer","content":"d"},
    {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
    {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",
      "function":{"name":"f","arguments":"{\"x\":1}"}}]},
    {"role":"tool","tool_call_id":"1","content":"r"}]})");
  ASSERT_TRUE(request.ok()) << request.error().text();
  const Json& m = request->chat->messages;
  EXPECT_EQ(m[0]["role"], "system");
  EXPECT_EQ(m[1]["content"], "ab");
  EXPECT_EQ(m[2]["content"], "");
  EXPECT_EQ(m[2]["tool_calls"][0]["function"]["arguments"], Json({{"x", 1}}));
  EXPECT_EQ(m[3]["tool_call_id"], "1");
}

TEST(ServeApi, WritesInvalidUtf8AsValidJson) {
  const auto request = chat(R"({"messages":[{"role":"user","content":"x"}],"logprobs":true})");
  ASSERT_TRUE(request.ok());
  CompleteAnswer answer;
  answer.text = "a", answer.tokens = {{0, {}}, {1, {}}, {77, {}}};
  const auto reply = parse_json(request->formatter->format_complete({answer}, {3, 2, {}}), "answer");
  ASSERT_TRUE(reply.ok()) << reply.error().text();
  const Json& tokens = (*reply)["choices"][0]["logprobs"]["content"];
  EXPECT_EQ(tokens[1]["bytes"], Json::array({0xC3}));
  EXPECT_EQ(tokens[2]["token"], "");
  EXPECT_EQ((*reply)["usage"]["total_tokens"], 5);
}

TEST(Gate, AdmitsOneCallerUpToTheLimit) {
  for (int64_t places = 1; places < 40; ++places) {
    Gate gate(places);
    std::vector<Gate::Ticket> tickets;
    while (auto ticket = gate.enter("a")) tickets.push_back(std::move(ticket));
    EXPECT_EQ(gate.in_flight("a"), places);
    EXPECT_FALSE(gate.admits("a"));
    tickets.pop_back();
    EXPECT_EQ(gate.in_flight(), places - 1);
    EXPECT_TRUE(gate.admits("a"));
  }
  Gate gate(2);
  auto a = gate.enter("a");
  const Gate::Ticket moved = std::move(a);
  EXPECT_EQ(gate.in_flight("a"), 1);
}

TEST(Gate, ReservesPlacesForOtherCallers) {
  Gate gate(100);
  std::map<std::string, std::vector<Gate::Ticket>> tickets;
  const auto fill = [&](const std::string& caller) {
    while (auto ticket = gate.enter(caller)) tickets[caller].push_back(std::move(ticket));
    return gate.in_flight(caller);
  };
  EXPECT_EQ(fill("a"), 100);
  EXPECT_EQ(fill("b"), 20);
  tickets["a"].clear();
  EXPECT_EQ(fill("b"), 100);
  tickets.clear();
  EXPECT_EQ(gate.in_flight(), 0);
  // Callers that alternate get equal shares, and a new caller is still admitted.
  for (int i = 0; i < 200; ++i)
    for (const char* caller : {"a", "b", "c"})
      if (auto ticket = gate.enter(caller)) tickets[caller].push_back(std::move(ticket));
  for (const char* caller : {"a", "b", "c"})
    EXPECT_NEAR(static_cast<double>(gate.in_flight(caller)), 38.5, 1) << caller;
  EXPECT_TRUE(gate.admits("d"));
}

TEST(Workers, RunPostedItems) {
  std::atomic<int> done{0};
  {
    Workers workers(2);
    for (int i = 0; i < 100; ++i) workers.post([&] { ++done; });
    while (done < 100) std::this_thread::yield();
  }
  EXPECT_EQ(done, 100);
}

TEST(FairQueue, CallersTakeTurnsAndSmallItemsGoFirst) {
  FairQueue<int> queue;
  const auto any_caller = [](const std::string&) { return true; };
  for (int i = 0; i < 6; ++i) queue.push("greedy", 5 << 20, i);
  queue.push("greedy", 100, 100);
  queue.push("modest", 5 << 20, 200);
  std::vector<int> order;
  while (const auto next = queue.pop(any_caller)) order.push_back(next->second);
  // The small item goes before the large ones of its caller; the other caller is second; then
  // follow the large items, oldest first.
  EXPECT_EQ(order, (std::vector<int>{100, 200, 0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(queue.empty());

  queue.push("a", 5 << 20, 0);
  for (int i = 1; i < 9; ++i) queue.push("a", 100, i);
  order.clear();
  while (const auto next = queue.pop(any_caller)) order.push_back(next->second);
  EXPECT_EQ(order[3], 0) << "large work is not starved by small work";

  queue.push("a", 1, 1);
  EXPECT_FALSE(queue.pop([](const std::string&) { return false; }));
  EXPECT_EQ(queue.size(), 1U);
}

TEST(Workers, ShortWorkDoesNotWaitForLongWork) {
  std::atomic<bool> unblocked{false};
  std::atomic<int> done{0};
  Workers workers(1, 2);
  const auto hold = [&] {
    while (!unblocked) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  for (int i = 0; i < 50; ++i) workers.post({hold, "a", 1 << 20, true});
  for (int i = 0; i < 10; ++i) workers.post({[&] { ++done; }, "a", 10});
  for (int i = 0; i < 60000 && done < 10; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(done, 10) << "short work waits behind long work";
  // One of the two long threads is reserved for other callers.
  std::atomic<bool> other{false};
  workers.post({[&] { other = true; }, "b", 1 << 20, true});
  for (int i = 0; i < 60000 && !other; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(other) << "one caller holds all threads";
  unblocked = true;
}

TEST(Workers, DropItemsOfDisconnectedClients) {
  const auto disconnected = std::make_shared<std::atomic<bool>>(true);
  std::atomic<int> cancelled_ran{0}, other_ran{0};
  {
    Workers workers(1, 0);
    const auto resource = std::make_shared<int>(1);
    for (int i = 0; i < 10; ++i)
      workers.post({[&, resource] { ++cancelled_ran; }, "a", 10, false, disconnected});
    workers.post([&] { ++other_ran; });
    for (int i = 0; i < 5000 && (other_ran == 0 || resource.use_count() > 1); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(resource.use_count(), 1) << "resources of dropped items are released";
  }
  EXPECT_EQ(cancelled_ran, 0);
  EXPECT_EQ(other_ran, 1);
}

TEST(Moderations, FlagByLabelAndThreshold) {
  const auto flagged = [](std::vector<double> row, const std::vector<std::string>& labels, bool multi) {
    return moderation_json({std::move(row)}, labels, multi, "m", "1")["results"][0]["flagged"].get<bool>();
  };
  EXPECT_FALSE(flagged({0.9, 0.1}, {"not-toxic", "toxic"}, false));
  EXPECT_TRUE(flagged({0.4, 0.6}, {"Non_Toxic", "toxic"}, false));
  EXPECT_FALSE(flagged({0.9, 0.1}, {"LABEL_0", "LABEL_1"}, false));
  EXPECT_TRUE(flagged({0.1, 0.9}, {"LABEL_0", "LABEL_1"}, false));
  EXPECT_TRUE(flagged({0.4, 0.3, 0.3}, {"hate", "threat", "neutral"}, false));
  EXPECT_FALSE(flagged({0.4, 0.3}, {"hate", "threat"}, true));
  EXPECT_TRUE(flagged({0.7, 0.6}, {"neutral", "threat"}, true));
  EXPECT_FALSE(flagged({0.7, 0.1}, {"neutral", "threat"}, true));
  EXPECT_TRUE(flagged({0.7}, {"toxic"}, false));
}

Json stored_response(const std::string& id, const Json& previous) {
  return {{"id", id}, {"output", {{{"type", "message"}, {"text", id}}}}, {"previous_response_id", previous}};
}

TEST(ResponseStore, EvictsTheLeastRecentlyUsed) {
  ResponseStore store(8);  // two per owner
  store.add("me", stored_response("a", nullptr), Json::array({1}));
  store.add("me", stored_response("b", "a"), Json::array({2}));
  ASSERT_TRUE(store.response("me", "a").ok());
  store.add("me", stored_response("c", "a"), Json::array({3}));
  EXPECT_FALSE(store.response("me", "b").ok());
  const auto items = store.conversation("me", "c");
  ASSERT_TRUE(items.ok());
  EXPECT_EQ(items->size(), 4U);
  EXPECT_FALSE(store.response("another", "a").ok());
  EXPECT_FALSE(store.conversation("another", "c").ok());
  EXPECT_EQ((*items)[0], 1);
  EXPECT_EQ((*items)[1]["text"], "a");
  EXPECT_TRUE(store.remove("me", "a").ok());
  EXPECT_FALSE(store.remove("me", "a").ok());
  const auto gap = store.conversation("me", "c");
  ASSERT_FALSE(gap.ok());
  EXPECT_EQ(gap.error().place, "previous_response_id");
}

TEST(ResponseStore, LimitsItsBytes) {
  ResponseStore store(1000, 16000);  // 4000 bytes per owner
  for (int i = 0; i < 100; ++i)
    store.add("me", stored_response(std::to_string(i), nullptr), Json::array({std::string(100, 'x')}));
  EXPECT_GT(store.size(), 0U);
  EXPECT_LT(store.size(), 6U);
  EXPECT_TRUE(store.response("me", "99").ok());
  store.add("me", stored_response("large", nullptr), Json::array({std::string(5000, 'x')}));
  EXPECT_FALSE(store.response("me", "large").ok());
  EXPECT_TRUE(store.response("me", "99").ok());
}

TEST(ResponseStore, OneOwnerDoesNotEvictAnother) {
  ResponseStore store(8);
  store.add("me", stored_response("mine", nullptr), Json::array({1}));
  for (int i = 0; i < 100; ++i)
    store.add("another", stored_response(std::to_string(i), nullptr), Json::array({1}));
  EXPECT_TRUE(store.response("me", "mine").ok());
  EXPECT_EQ(store.size(), 3U);
}

TEST(ReadBody, RejectsTooManyKeysAndRemovesNulls) {
  std::string text = "{\"content\":\"a\"";
  for (int i = 0; i < 200'000; ++i) text += fmt::format(",\"key{}\":null", i);
  const auto many = read_body(text + "}");
  ASSERT_FALSE(many.ok());
  EXPECT_EQ(many.error().kind, Error::Kind::kLimit);
  const auto few = read_body(R"({"a":null,"b":1,"c":null,"d":[null]})");
  ASSERT_TRUE(few.ok());
  EXPECT_EQ(dump(*few), R"({"b":1,"d":[null]})");
}

// Bytes that are allocated and not yet freed.
int64_t allocated() { return static_cast<int64_t>(::mallinfo2().uordblks + ::mallinfo2().hblkhd); }

TEST(RequestMemory, JsonEstimateIsAnUpperBound) {
  if (test::kSanitized) GTEST_SKIP() << "the sanitizer has its own allocator";
  const auto repeated = [](const char* piece, int count) {
    std::string out = "[";
    for (int i = 0; i < count; ++i) out += (i ? "," : "") + std::string(piece);
    return out + "]";
  };
  std::vector<std::string> texts = {repeated("1", 100'000),         repeated("[]", 100'000),
                                    repeated("{}", 100'000),        repeated("\"0123456789abcdef\"", 100'000),
                                    repeated("{\"a\":1}", 50'000),  "\"" + std::string(1'000'000, 'x') + "\"",
                                    repeated("\"\\\"[,:\"", 50'000)};
  std::string fields = "{";
  for (int i = 0; i < 50'000; ++i) fields += fmt::format("{}\"{}\":{}", i ? "," : "", i, i);
  texts.push_back(fields + "}");
  for (const std::string& text : texts) {
    const int64_t before = allocated();
    const auto json = parse_json(text, "text");
    ASSERT_TRUE(json.ok());
    const int64_t used = allocated() - before;
    EXPECT_LE(used, json_memory(text)) << text.substr(0, 60);
    EXPECT_LE(json_memory(text), 20 * used + 1000) << text.substr(0, 60);
  }
}

TEST(RequestMemory, RejectsRequestsThatDoNotFit) {
  RequestMemory memory(1000);
  {
    RequestMemory::Share one(memory), two(memory);
    EXPECT_TRUE(one.add(600, "a").ok());
    const Status busy = two.add(600, "b"), too_large = two.add(1200, "b");
    ASSERT_FALSE(busy.ok() || too_large.ok());
    EXPECT_EQ(ApiError::of(busy.error()).status, 503);
    EXPECT_EQ(ApiError::of(too_large.error()).status, 400);
    EXPECT_TRUE(two.add(400, "b").ok());
    RequestMemory::Share moved = std::move(one);
    EXPECT_EQ(memory.reserved(), 1000);
    moved.shrink(100);
    EXPECT_EQ(memory.reserved(), 500);
    moved.shrink(300);
    EXPECT_EQ(memory.reserved(), 500);
  }
  EXPECT_EQ(memory.reserved(), 0);
}

TEST(BodyPool, LimitsCallersAndReservesBytesPerConnection) {
  using Full = BodyPool::Share::Full;
  BodyPool pool(1000);
  const size_t free = BodyPool::kUncountedBytes;
  BodyPool::Share a(pool), b(pool), c(pool), d(pool);
  EXPECT_EQ(a.resize("one", free + 400), Full::kNo);
  EXPECT_EQ(b.resize("one", free + 200), Full::kCaller);
  EXPECT_EQ(b.resize("one", free + 100), Full::kNo);
  EXPECT_EQ(c.resize("two", free + 500), Full::kNo);
  EXPECT_EQ(d.resize("three", free + 1), Full::kPool);
  EXPECT_EQ(d.resize("three", free), Full::kNo);  // never refused
  a.release();
  EXPECT_EQ(d.resize("three", free + 400), Full::kNo);
}

}  // namespace
}  // namespace makar
