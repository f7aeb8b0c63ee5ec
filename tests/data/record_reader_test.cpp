// Dataset files in every format, valid and broken: records have their places; bad records are counted and
// reported.
#include "data/record_reader.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zlib.h>
#include <zstd.h>

#include "data/schema.h"
#include "scratch_folder.h"

namespace makar {
namespace {

struct ReadResult {
  std::vector<DataRecord> records;
  BadRecords bad;
  std::string error;
};

ReadResult read(const std::string& path) {
  ReadResult out;
  auto reader = RecordReader::open({path});
  if (!reader.ok()) return out.error = reader.error().text(), out;
  for (DataRecord r;;) {
    const auto found = reader->next(r);
    if (!found.ok()) {
      out.error = found.error().text();
      break;
    }
    if (!*found) break;
    out.records.push_back(r);
  }
  out.bad = reader->bad();
  return out;
}

std::string gzipped(const std::string& text) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(text.size() + 1000, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data())),
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data()), z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

TEST(Records, JsonlErrorsNameFileAndLine) {
  ScratchFolder f;
  const auto r = read(
      f.write("a.jsonl", "{\"text\": \"one\"}\n\nnot json\n[1]\n{\"text\": \"\xff\"}\n{\"text\": \"two\"}"));
  ASSERT_EQ(r.records.size(), 2u);
  EXPECT_EQ(r.records[1].line, 6u);
  ASSERT_EQ(r.bad.count, 3u);
  EXPECT_NE(r.bad.reported[0].find("a.jsonl:3: "), std::string::npos) << r.bad.reported[0];
  EXPECT_NE(r.bad.reported[1].find("a.jsonl:4: a record must be an object"), std::string::npos)
      << r.bad.reported[1];
}

TEST(Records, CompressedFilesAreReadByTheirFirstBytes) {
  ScratchFolder f;
  const std::string text = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
  std::string z(ZSTD_compressBound(text.size()), '\0');
  z.resize(ZSTD_compress(z.data(), z.size(), text.data(), text.size(), 3));
  EXPECT_EQ(read(f.write("a.jsonl.gz", gzipped(text))).records.size(), 2u);
  EXPECT_EQ(read(f.write("b.jsonl.zst", z)).records.size(), 2u);
  EXPECT_EQ(read(f.write("members.jsonl.gz", gzipped(text) + gzipped(text))).records.size(), 4u);
  const auto truncated = read(f.write("c.jsonl.gz", gzipped(text).substr(0, 20)));
  EXPECT_NE(truncated.error.find("ends early"), std::string::npos) << truncated.error;
  EXPECT_NE(read(f.write("d.jsonl.zst", z.substr(0, z.size() - 3))).error.find("ends early"),
            std::string::npos);
}

TEST(Records, JsonListsAreReadOneElementAtATime) {
  ScratchFolder f;
  const auto r = read(f.write("a.json", "[\n{\"text\": \"a ] } , \\\" b\"},\n 5,\n{\"text\": \"c\"}]"));
  ASSERT_EQ(r.records.size(), 2u);
  EXPECT_EQ(r.records[0].value["text"], "a ] } , \" b");
  EXPECT_EQ(r.records[1].line, 4u);
  EXPECT_EQ(r.bad.count, 1u);
  EXPECT_NE(read(f.write("cut.json", "[{\"text\": \"a\"}, ")).error.find("does not end"), std::string::npos);
}

TEST(Records, SquadBecomesOneRecordPerQuestion) {
  ScratchFolder f;
  const auto r = read(f.write(
      "q.json",
      R"({"data":[{"paragraphs":[{"context":"c","qas":[{"question":"x","answers":[]},{"question":"y"},{}]}]}]})"));
  ASSERT_EQ(r.records.size(), 2u);
  EXPECT_EQ(detect_schema(r.records[0].value), Schema::kQuestion);
  EXPECT_EQ(r.bad.count, 1u);
}

TEST(Records, CsvHasQuotesAndTsvNeedsNoHeader) {
  ScratchFolder f;
  const auto csv = read(f.write("a.csv", "text,label\n\"a, \"\"b\"\"\nc\",1\nshort\nplain,0\n"));
  ASSERT_EQ(csv.records.size(), 2u);
  EXPECT_EQ(csv.records[0].value["text"], "a, \"b\"\nc");
  EXPECT_EQ(csv.records[1].value["label"], "0");
  ASSERT_EQ(csv.bad.count, 1u);
  EXPECT_NE(csv.bad.reported[0].find(":4: "), std::string::npos) << csv.bad.reported[0];
  const auto tsv = read(f.write("a.tsv", "say \"hi\tloud\"\t1\n"));
  EXPECT_NE(tsv.error.find("name the columns"), std::string::npos);
  const auto two = read(f.write("b.tsv", "a \"fine\" film\t1\n"));
  ASSERT_EQ(two.records.size(), 1u);
  EXPECT_EQ(two.records[0].value["text"], "a \"fine\" film");
}

TEST(Records, ColumnsAreRenamed) {
  ScratchFolder f;
  const auto all = [](const DataPath& path) {
    std::vector<Json> out;
    auto reader = RecordReader::open({path});
    EXPECT_TRUE(reader.ok());
    DataRecord record;
    for (auto found = reader->next(record); found.ok() && *found; found = reader->next(record))
      out.push_back(record.value);
    return std::pair(out, reader->bad());
  };
  const std::string named = f.write("named.csv", "opinion,stars,label\nfine,5,x\npoor,1,y\n");
  const auto [renamed, none] = all({named, {{"text", "opinion"}, {"label", "stars"}}});
  ASSERT_EQ(renamed.size(), 2u);
  EXPECT_EQ(renamed[0], Json({{"label", "5"}, {"text", "fine"}}));
  EXPECT_EQ(none.count, 0u);
  const auto [swapped, also_none] =
      all({f.write("bare.tsv", "5\tx\tfine\n"), {{"text", "3"}, {"label", "1"}}});
  ASSERT_EQ(swapped.size(), 1u);
  EXPECT_EQ(swapped[0]["text"], "fine");
  EXPECT_EQ(swapped[0]["label"], "5");
  const auto [missing, bad] = all({named, {{"text", "nothing"}, {"label", "stars"}}});
  EXPECT_TRUE(missing.empty());
  EXPECT_EQ(bad.count, 2u);
  ASSERT_EQ(bad.reported.size(), 1u) << "a reason that all records share is reported once";
  EXPECT_NE(bad.reported[0].find("'opinion', 'stars', 'label'"), std::string::npos) << bad.reported[0];
}

TEST(Records, ConllSentencesAreRead) {
  ScratchFolder f;
  const auto r = read(f.write(
      "a.conllu", "# s\n1-2\tdon't\t_\t_\n1\tdo\tdo\tAUX\n2\tn't\tnot\tPART\n\n1\tx\n\n1\tgo\tgo\tVERB\n"));
  ASSERT_EQ(r.records.size(), 2u);
  EXPECT_EQ(r.records[0].value["tokens"], Json({"do", "n't"}));
  EXPECT_EQ(r.records[0].value["tags"], Json({"AUX", "PART"}));
  EXPECT_EQ(r.records[1].line, 8u);
  EXPECT_EQ(r.bad.count, 1u);
}

TEST(Records, PlainTextIsOneDocumentInPieces) {
  ScratchFolder f;
  std::string text;
  while (text.size() < FileReader::kPieceBytes * 2 + 1000) text += "a line of some words\n";
  const auto r = read(f.write("a.txt", text + std::string("nul \0 and bad \xff", 16)));
  ASSERT_EQ(r.records.size(), 3u);
  std::string all;
  for (const auto& record : r.records) all += record.value["text"].get<std::string>();
  EXPECT_FALSE(r.records[0].continues);
  EXPECT_TRUE(r.records[1].continues);
  EXPECT_EQ(all, text + std::string("nul \0 and bad \xEF\xBF\xBD", 18));
  EXPECT_TRUE(read(f.write("empty.txt", "")).records.empty());
}

TEST(Records, AnEndlessLineIsSkippedInBoundedMemory) {
  ScratchFolder f;
  // 1 GiB of one line, as 1 MiB of gzip.
  const std::string path = f / "long.jsonl.gz";
  gzFile out = gzopen(path.c_str(), "wb1");
  const std::string block(size_t{1} << 20, 'x');
  for (int i = 0; i < 1024; ++i) gzwrite(out, block.data(), static_cast<unsigned>(block.size()));
  gzputs(out, "\n{\"text\": \"after\"}\n");
  gzclose(out);
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  const auto r = read(path);
  getrusage(RUSAGE_SELF, &after);
  ASSERT_EQ(r.records.size(), 1u);
  EXPECT_EQ(r.records[0].line, 2u);
  EXPECT_EQ(r.bad.count, 1u);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 200 * 1024);  // KiB
}

TEST(Records, FoldersAreReadInOrderOfNames) {
  ScratchFolder f;
  std::filesystem::create_directories(f / "in/.hidden");
  f.write("in/b.txt", "b");
  f.write("in/a.jsonl", "{\"text\": \"a\"}");
  f.write("in/.hidden/c.txt", "c");
  f.write("in/picture.png", "no");
  const auto r = read(f / "in");
  ASSERT_EQ(r.records.size(), 2u);
  EXPECT_EQ(r.records[0].value["text"], "a");
  EXPECT_NE(read(f / "gone").error.find("no such file"), std::string::npos);
}

TEST(Schemas, AreDetectedByTheirFields) {
  const std::pair<const char*, Schema> cases[] = {
      {R"({"text": "a"})", Schema::kText},
      {R"({"messages": []})", Schema::kMessages},
      {R"({"conversations": []})", Schema::kShareGpt},
      {R"({"instruction": "a", "input": "", "output": "b"})", Schema::kAlpaca},
      {R"({"prompt": "a", "completion": "b"})", Schema::kPromptCompletion},
      {R"({"prompt": "a", "completion": "b", "label": true})", Schema::kLabelledCompletion},
      {R"({"prompt": "a", "chosen": "b", "rejected": "c"})", Schema::kPreference},
      {R"({"prompt": "a", "answer": "b"})", Schema::kPrompt},
      {R"({"sentence": "a", "label": 1})", Schema::kTextLabel},
      {R"({"tokens": ["a"], "ner_tags": [0]})", Schema::kTokenLabels},
      {R"({"context": "a", "question": "b"})", Schema::kQuestion},
      {R"({"anchor": "a", "positive": "b"})", Schema::kTriplet},
      {R"({"source": "a", "target": "b"})", Schema::kSourceTarget}};
  for (const auto& [text, schema] : cases) {
    EXPECT_EQ(detect_schema(Json::parse(text)), schema) << text;
    EXPECT_EQ(schema_named(name(schema)), schema);
  }
  EXPECT_FALSE(detect_schema(Json::parse(R"({"x": 1})")));
}

TEST(Schemas, ConversationsBecomeMessages) {
  const auto chat = to_messages(
      Json::parse(R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]})"),
      Schema::kShareGpt);
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ((*chat)[1]["role"], "assistant");
  EXPECT_EQ((*chat)[1]["content"], "b");
  EXPECT_FALSE(to_messages(Json::parse(R"({"messages": [{"role": 3}]})"), Schema::kMessages).ok());
  EXPECT_FALSE(to_messages(Json::parse(R"({"instruction": 4, "output": "x"})"), Schema::kAlpaca).ok());
}

}  // namespace
}  // namespace makar
