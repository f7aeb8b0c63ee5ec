// The datasets of a run: how they are named, split and identified.
#include "data/datasets.h"

#include <gtest/gtest.h>

#include "data/spool.h"
#include "data/train_tokenizer.h"
#include "scratch_folder.h"

namespace makar {
namespace {

Tokenizer character_tokenizer(const std::string& file, const ScratchFolder& f, ThreadPool& pool) {
  const auto json = train_tokenizer_on({file}, {"char", 1000, {}, f / "scratch"}, pool);
  check(json.ok(), json.ok() ? "" : json.error().text());
  return *Tokenizer::from_json(*json, "test");
}

TEST(Datasets, NamesHaveTypeWeightAndColumns) {
  const auto spec = parse_dataset("a.csv,type=alpaca,weight=2.5,text=review");
  ASSERT_TRUE(spec.ok()) << spec.error().text();
  EXPECT_EQ(spec->path, "a.csv");
  EXPECT_EQ(spec->type, "alpaca");
  EXPECT_EQ(spec->weight, 2.5);
  EXPECT_EQ(spec->columns, (Columns{{"text", "review"}}));
  for (const char* wrong : {"", "a,weight=0", "a,weight=x", "a,text=", "a,colour=x"})
    EXPECT_FALSE(parse_dataset(wrong).ok()) << wrong;
}

// A plain text is one document, which the hash would put into training or validation as a whole.
TEST(Datasets, OneDocumentIsSplitAtItsEnd) {
  int in_training = 0;
  for (int i = 0; i < 40; ++i) {
    ScratchFolder f;
    std::string text;
    for (int line = 0; line < 30; ++line) text += fmt::format("line {} of text {}\n", line, i);
    const std::string file = f.write("a.txt", text);
    in_training += in_validation(text, 0.5, 0) ? 0 : 1;
    ThreadPool pool(1);
    DatasetOptions o;
    o.train = {file}, o.validation_share = 0.5, o.folder = f / "run";
    std::vector<std::string> messages;
    o.say = [&](const std::string& line) { messages.push_back(line); };
    Json identity;
    const auto data = open_token_datasets(o, character_tokenizer(file, f, pool), -1, pool, identity);
    ASSERT_TRUE(data.ok()) << data.error().text();
    ASSERT_EQ(data->train.size(), 1u);
    ASSERT_EQ(data->validation.size(), 1u);
    const auto all = static_cast<int64_t>(text.size());
    EXPECT_EQ(data->train[0].store.tokens() + data->validation[0].tokens(), all);
    EXPECT_NEAR(static_cast<double>(data->validation[0].tokens()), 0.5 * static_cast<double>(all), 1);
    ASSERT_EQ(messages.size(), 2u);
    EXPECT_NE(messages[0].find("the last tokens"), std::string::npos) << messages[0];
    // The second call reuses the stored tokens and reports nothing.
    ASSERT_TRUE(open_token_datasets(o, character_tokenizer(file, f, pool), -1, pool, identity).ok());
    EXPECT_EQ(messages.size(), 2u);
    EXPECT_EQ(identity["data"][0], identity["data"][1]);
  }
  EXPECT_GT(in_training, 0);
  EXPECT_LT(in_training, 40);
}

struct Line {
  std::string text;
  static constexpr auto fields() { return std::tuple(&Line::text); }
};
struct Lines {
  explicit Lines(const std::string& folder) : train(folder), validation(folder) {}
  SpoolOf<Line> train, validation;
  BadRecords bad;
};

Result<Lines> read_lines(const DatasetOptions& options, Json& identity) {
  return read_examples<Lines>(
      options, "lines", identity, [](const DatasetSpec& spec, ValidationSplit& split, Lines& out) -> Status {
        MAKAR_TRY(auto reader, RecordReader::open({spec.data()}));
        for (DataRecord record;;) {
          MAKAR_TRY(const bool found, reader.next(record));
          if (!found) break;
          const std::string text = record.value.at("text");
          MAKAR_RETURN_IF_ERROR((split.selects(text) ? out.validation : out.train).add({text}));
        }
        return Done{};
      });
}

TEST(Datasets, ExamplesAreSplitAndIdentifiedByContent) {
  ScratchFolder f;
  const auto file = [&](const std::string& name, int count, const std::string& extra = "") {
    std::string lines;
    for (int i = 0; i < count; ++i) lines += fmt::format("{{\"text\": \"{}{}\"}}\n", i, extra);
    return f.write(name, lines);
  };
  DatasetOptions o;
  o.train = {file("a.jsonl", 200)}, o.validation_share = 0.2, o.folder = f / "run";
  Json one, same, other;
  const auto data = read_lines(o, one);
  ASSERT_TRUE(data.ok()) << data.error().text();
  EXPECT_EQ(data->train.size() + data->validation.size(), 200u);
  EXPECT_GT(data->validation.size(), 20u);
  o.train = {file("b.jsonl", 200)};
  ASSERT_TRUE(read_lines(o, same).ok());
  EXPECT_EQ(same, one) << "the content counts, not the name";
  o.train = {file("c.jsonl", 200, "x")};
  ASSERT_TRUE(read_lines(o, other).ok());
  EXPECT_NE(other, one);
  // With a validation file, all of its examples are for validation and all others for training.
  o.train = {file("d.jsonl", 30)}, o.validation = {file("e.jsonl", 5, "v")};
  const auto separate = read_lines(o, other);
  EXPECT_EQ(separate->train.size(), 30u);
  EXPECT_EQ(separate->validation.size(), 5u);
  // Too few examples to split by hash: the last ones are used for validation.
  o.train = {file("f.jsonl", 3)}, o.validation.clear(), o.validation_share = 1e-9;
  const auto few = read_lines(o, other);
  EXPECT_EQ(few->train.size(), 2u);
  EXPECT_EQ(few->validation.read(0)->text, "2");
  o.validation_share = 1 - 1e-9;
  EXPECT_EQ(read_lines(o, other)->train.size(), 1u);
  o.train = {f.write("empty.jsonl", "")};
  EXPECT_FALSE(read_lines(o, other).ok());
}

}  // namespace
}  // namespace makar
