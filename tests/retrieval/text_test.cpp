// Terms, chunks and loaders.
#include <gtest/gtest.h>

#include "base/utf8.h"
#include "retrieval/analyzer.h"
#include "retrieval/chunker.h"
#include "retrieval/load/html.h"
#include "retrieval/load/loader.h"
#include "retrieval/load/pdf.h"
#include "scratch_folder.h"

namespace makar {
namespace {

std::vector<std::string> terms(const AnalyzerOptions& options, const std::string& text) {
  const auto analyzer = Analyzer::open(options);
  EXPECT_TRUE(analyzer.ok());
  return (*analyzer)(text);
}

TEST(Analyzer, SplitsDropsStopWordsAndStems) {
  EXPECT_EQ(terms({"none"}, "The Cats' 2 cats, café_x"),
            (std::vector<std::string>{"the", "cats", "2", "cats", "café_x"}));
  EXPECT_EQ(terms({"english"}, "The running cats of the FARM's owner"),
            (std::vector<std::string>{"run", "cat", "farm", "owner"}));
  EXPECT_EQ(terms({"english", false, true}, "The running cats"),
            (std::vector<std::string>{"running", "cats"}));
  EXPECT_EQ(terms({"english", true, false}, "The cats"), (std::vector<std::string>{"the", "cat"}));
  EXPECT_EQ(terms({"german"}, "Die Häuser und die ÄPFEL"), (std::vector<std::string>{"haus", "apfel"}));
  EXPECT_EQ(terms({"none"}, "don’t \xff\xfe x"), (std::vector<std::string>{"don't", "x"}));
  const auto unknown = Analyzer::open({"englsh"});
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("english"), std::string::npos);
}

TEST(Analyzer, BagOfWordsMatchesTheWorkedExample) {
  // Two sentences over ten words.
  const std::vector<std::string> vocabulary = {"review", "the", "movie", "is",  "very",
                                               "scary",  "and", "long",  "not", "slow"};
  const auto analyze = [&](const std::string& text) {
    return bag_of_words(terms({"none"}, text), vocabulary);
  };
  EXPECT_EQ(analyze("the review the movie is very very scary and"),
            (std::vector<int64_t>{1, 2, 1, 1, 2, 1, 1, 0, 0, 0}));
  EXPECT_EQ(analyze("the movie is scary long not slow"),
            (std::vector<int64_t>{0, 1, 1, 1, 0, 1, 0, 1, 1, 1}));
}

std::vector<std::string> chunk_texts(const std::string& text, const ChunkOptions& options) {
  const auto chunks = split_chunks(text, options);
  EXPECT_TRUE(chunks.ok());
  std::vector<std::string> out;
  for (const TextChunk& c : *chunks) out.push_back(text.substr(c.begin, c.end - c.begin));
  return out;
}

TEST(Chunker, CharactersAreCutAtBlanks) {
  EXPECT_EQ(chunk_texts("alpha beta gamma delta", {ChunkKind::kCharacters, 11, 0}),
            (std::vector<std::string>{"alpha beta", "gamma delta"}));
  EXPECT_EQ(chunk_texts("one two three four", {ChunkKind::kCharacters, 9, 4}),
            (std::vector<std::string>{"one two", "two three", "four"}));
  // Without blanks it cuts between characters, never inside one.
  EXPECT_EQ(chunk_texts("äöüäöü", {ChunkKind::kCharacters, 4, 0}), (std::vector<std::string>{"äöüä", "öü"}));
}

TEST(Chunker, ChunksOfAThousandCharactersRestoreTheText) {
  std::string text;
  for (int i = 0; i < 700; ++i) text += "word" + std::to_string(i) + " ";
  const auto all = chunk_texts(text, {ChunkKind::kCharacters, 1000, 0});
  ASSERT_GT(all.size(), 4u);
  std::string joined;
  for (const std::string& piece : all) {
    EXPECT_LE(piece.size(), 1000u);
    joined += piece + " ";
  }
  EXPECT_EQ(joined, text);
}

TEST(Chunker, SentencesAreGroupedIntoChunks) {
  const std::string text = "Mr. Smith left. He said \"Go!\" and ran? Yes.\n\nNew paragraph 3.14 here. End";
  std::vector<std::string> sentences;
  for (const Span& s : sentences_of(text)) sentences.push_back(text.substr(s.begin, s.end - s.begin));
  EXPECT_EQ(sentences, (std::vector<std::string>{"Mr. Smith left. ", "He said \"Go!\" ", "and ran? ",
                                                 "Yes.\n\n", "New paragraph 3.14 here. ", "End"}));
  EXPECT_EQ(chunk_texts(text, {ChunkKind::kSentences, 36, 0}),
            (std::vector<std::string>{"Mr. Smith left. He said \"Go!\"", "and ran? Yes.",
                                      "New paragraph 3.14 here. End"}));
  EXPECT_EQ(chunk_texts("A one. B two. C three.", {ChunkKind::kSentences, 14, 0}),
            (std::vector<std::string>{"A one. B two.", "C three."}));
  EXPECT_EQ(chunk_texts("A one. B two. C tre.", {ChunkKind::kSentences, 14, 7}),
            (std::vector<std::string>{"A one. B two.", "B two. C tre."}));
}

TEST(Chunker, HeadingsStartChunks) {
  const std::string text = "intro\n# A\ntext a\n## B\ntext b\n```\n# code\n```\n# C\ntext c\n";
  const auto chunks = split_chunks(text, {ChunkKind::kHeadings, 1000, 0});
  ASSERT_TRUE(chunks.ok());
  ASSERT_EQ(chunks->size(), 4u);
  EXPECT_EQ((*chunks)[2].heading, "A > B");
  EXPECT_EQ((*chunks)[3].heading, "C");
  EXPECT_EQ(text.substr((*chunks)[2].begin, 4), "## B");
}

TEST(Chunker, CoversTheText) {
  std::string text;
  for (uint32_t i = 0, state = 7; i < 4000; ++i) {
    state = state * 1664525 + 1013904223;
    append_utf8(text, U"ab. \n#é! ?x\t日"[state >> 28 & 15 ? (state >> 28) % 14 : 0]);
  }
  for (const ChunkKind kind :
       {ChunkKind::kWhole, ChunkKind::kCharacters, ChunkKind::kSentences, ChunkKind::kHeadings})
    for (const int64_t size : {1, 7, 100})
      for (const int64_t overlap : {int64_t{0}, size / 2}) {
        const auto chunks = split_chunks(text, {kind, size, overlap});
        ASSERT_TRUE(chunks.ok());
        std::vector<bool> covered(text.size());
        for (const TextChunk& c : *chunks) {
          EXPECT_TRUE(is_valid_utf8(text.substr(c.begin, c.end - c.begin)));
          if (kind != ChunkKind::kWhole) {
            EXPECT_LE(count_code_points(text.substr(c.begin, c.end - c.begin)), static_cast<size_t>(size));
          }
          for (size_t i = c.begin; i < c.end; ++i) covered[i] = true;
        }
        for (size_t i = 0; i < text.size(); ++i)
          EXPECT_TRUE(covered[i] || text[i] == ' ' || text[i] == '\n' || text[i] == '\t') << i;
      }
}

TEST(Html, BecomesText) {
  const HtmlText page = read_html(
      "<!DOCTYPE html><html><head><title>A &amp; B</title><style>p {}</style><script>if (a<b) "
      "{}</script></head>"
      "<body><h2>Head</h2><p>One<br>two &#233;&eacute;&nbsp;x &bogus; a < b</p><ul><li>i<li>j</ul>"
      "<!-- no --><p title='>'>last</body>");
  EXPECT_EQ(page.title, "A & B");
  EXPECT_EQ(page.text, "## Head\n\nOne\ntwo éé x &bogus; a < b\n\n- i\n- j\n\nlast");
}

TEST(Encoding, IsDetectedAndConverted) {
  EXPECT_EQ(detect_encoding("caf\xE9"), TextEncoding::kLatin1);
  EXPECT_EQ(detect_encoding("caf\xE9 \x80"), TextEncoding::kWindows1252);
  EXPECT_EQ(detect_encoding("café"), TextEncoding::kUtf8);
  EXPECT_EQ(to_utf8("caf\xE9", TextEncoding::kAuto), "café");
  EXPECT_EQ(to_utf8("5\x80 \x93x\x94", TextEncoding::kAuto), "5€ “x”");
  EXPECT_EQ(to_utf8(std::string("\xFF\xFE\x41\x00\x3D\xD8\x00\xDE", 8), TextEncoding::kAuto), "A😀");
  EXPECT_EQ(to_utf8("\xEF\xBB\xBFx", TextEncoding::kAuto), "x");
}

std::vector<SourceDocument> load(const std::string& bytes, SourceFormat format, BadRecords& bad,
                                 const SourceOptions& options = {}) {
  std::vector<SourceDocument> out;
  const Status status = load_bytes(
      bytes, format, "f", options,
      [&](SourceDocument d) -> Status {
        out.push_back(std::move(d));
        return Done{};
      },
      bad);
  EXPECT_TRUE(status.ok());
  return out;
}

TEST(Loader, RecordsBecomeDocuments) {
  BadRecords bad;
  const auto rows = load("name,price\n\"Caf\xE9, big\",3\nb,4,5\n", SourceFormat::kCsv, bad);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].text, "name: Café, big\nprice: 3\n");
  EXPECT_EQ(rows[0].name, "f#2");
  EXPECT_EQ(rows[0].metadata["price"], "3");
  EXPECT_EQ(bad.count, 1u);
  bad = {};
  const auto lines = load(
      "{\"_id\":\"a\",\"title\":\"T\",\"text\":\"x\",\"year\":7}\n{\"text\":1}\nnot\n\n{\"other\":\"y\"}\n",
      SourceFormat::kJsonl, bad);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].name, "a");
  EXPECT_TRUE(lines[0].index_title);
  EXPECT_EQ(lines[0].metadata["year"], 7);
  EXPECT_EQ(bad.count, 3u);
  EXPECT_NE(bad.reported[2].find("--text-field"), std::string::npos);
  bad = {};
  const auto cran =
      load(".I 1\n.T\ntitle\n.A\nme\n.W\nbody a\nbody b\n.I 2\n.W\nz\n", SourceFormat::kCranfield, bad);
  ASSERT_EQ(cran.size(), 2u);
  EXPECT_EQ(cran[0].text, "body a\nbody b\n");
  EXPECT_EQ(cran[1].name, "2");
}

TEST(Loader, PdfBecomesText) {
  const ScratchFolder folder;
  const std::string stream = "BT /F1 24 Tf 72 700 Td (Hello retrieval) Tj ET";
  std::string pdf = "%PDF-1.4\n";
  std::vector<size_t> offsets;
  const auto object = [&](const std::string& body) {
    offsets.push_back(pdf.size());
    pdf += std::to_string(offsets.size()) + " 0 obj\n" + body + "\nendobj\n";
  };
  object("<< /Type /Catalog /Pages 2 0 R >>");
  object("<< /Type /Pages /Kids [3 0 R] /Count 1 >>");
  object(
      "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R "
      ">> >> >>");
  object("<< /Length " + std::to_string(stream.size()) + " >>\nstream\n" + stream + "\nendstream");
  object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>");
  const size_t table = pdf.size();
  pdf += "xref\n0 6\n0000000000 65535 f \n";
  for (const size_t offset : offsets) pdf += fmt::format("{:010} 00000 n \n", offset);
  pdf += "trailer << /Size 6 /Root 1 0 R >>\nstartxref\n" + std::to_string(table) + "\n%%EOF\n";
  const std::string path = folder.write("a.pdf", pdf);
  const auto missing = read_pdf(path, {}, "no-such-program-of-makar");
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("poppler-utils"), std::string::npos);
  const auto text = read_pdf(path);
  if (!text.ok() && text.error().kind == Error::Kind::kUnsupported) GTEST_SKIP() << "no pdftotext";
  ASSERT_TRUE(text.ok()) << text.error().text();
  EXPECT_NE(text->find("Hello retrieval"), std::string::npos);
  EXPECT_FALSE(read_pdf(folder.write("b.pdf", "%PDF-1.4\nnothing")).ok());
}

}  // namespace
}  // namespace makar
