// Cleaners, rules, personal data, languages, duplicates, and the whole pipeline on planted faults.
#include "curate/curate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/file.h"
#include "base/rng.h"
#include "curate/clean.h"
#include "curate/contamination.h"
#include "curate/names.h"
#include "curate/near_duplicates.h"
#include "curate/quality.h"
#include "scratch_folder.h"

using namespace makar;

namespace {

// English-like sentences: words drawn from a list, different for each number.
std::string document(uint64_t number, int words) {
  static const std::vector<std::string> kWords = {
      "the",     "river",  "and",    "of",     "to",     "house", "water",  "morning",  "with",
      "that",    "have",   "stone",  "wheel",  "miller", "boy",   "rain",   "summer",   "waited",
      "carried", "pond",   "gate",   "opened", "every",  "day",   "slowly", "garden",   "field",
      "horse",   "bright", "winter", "window", "letter", "music", "road",   "mountain", "bread"};
  const Rng rng(number, Purpose::kSynthetic);
  std::string out;
  for (int i = 0; i < words; ++i) {
    out += kWords[rng.bits(static_cast<uint64_t>(i))[0] % kWords.size()];
    out += i % 12 == 11 ? ".\n" : " ";
  }
  return out + "end.";
}

TEST(Clean, HtmlBecomesText) {
  EXPECT_EQ(clean_html("<p>a &lt; b &amp; c</p><script>x < 1</script>d"), "\na < b & c\nd");
  EXPECT_EQ(clean_html("<a href=\"x>y\">link</a> 1 < 2 <!-- <b> -->z"), "link 1 < 2 z");
  EXPECT_EQ(clean_html("&#233;&#x20AC;&unknown; &"), "\u00E9\u20AC&unknown; &");
  EXPECT_EQ(clean_html("<"), "<");
  EXPECT_EQ(clean_html("<!--"), "");
  EXPECT_EQ(clean_html("<script>never closed"), "");
}

TEST(Clean, WikiMarkupBecomesText) {
  EXPECT_EQ(
      clean_wiki("'''Makar''' is a [[Scots language|Scots]] [[poet]].{{citation|a {{b}} c}}<ref>x</ref>"),
      "Makar is a Scots poet.");
  EXPECT_EQ(clean_wiki("== Title ==\n* one\n[[File:a.png|thumb|A [[b]]]]two [http://x.org site]"),
            "Title\none\ntwo site");
  EXPECT_EQ(clean_wiki("{| class=x\n|-\n| a\n|}b"), "b");
}

TEST(Clean, LatexBecomesText) {
  EXPECT_EQ(clean_latex("\\documentclass{a}\\begin{document}A \\emph{fine} day~\\cite{x} costs 5\\% of "
                        "$x^2$.% no\n\\end{document}"),
            "A fine day  costs 5% of  .\n");
  EXPECT_EQ(clean_latex("a\\begin{equation}x\\end{equation}b"), "a\nb");
  EXPECT_EQ(clean_latex("\\section*{Title}\\textbf{b}"), "Titleb");
}

TEST(Clean, LicencesBoilerplateAndBlanksAreRemoved) {
  EXPECT_EQ(clean_licence("/* Copyright 2020 X */\n\nint x;"), "int x;");
  EXPECT_EQ(clean_licence("#!/bin/sh\n# Licensed under the Apache License\n# more\necho"), "#!/bin/sh\necho");
  EXPECT_EQ(clean_licence("// adds two numbers\nint x;"), "// adds two numbers\nint x;");
  EXPECT_EQ(clean_boilerplate("Home | About | Contact\nA text.\nWe use cookies to track you.\nMore."),
            "A text.\nMore.");
  EXPECT_EQ(clean_boilerplate("This line is long enough.\nx\nThis line is long enough."),
            "This line is long enough.\nx");
  EXPECT_EQ(clean_blanks("\n\na  \n\n\n\nb\x01\r\n"), "a\n\nb");
}

TEST(Quality, GopherNamesTheRuleThatFails) {
  EXPECT_EQ(gopher(document(1, 200), {}).rule, "");
  EXPECT_EQ(gopher("too short", {}).rule, "gopher-words");
  std::string bullets, symbols, copies, stop;
  for (uint64_t i = 0; i < 30; ++i)
    bullets += "- another animal and number " + std::to_string(i) + " with that garden\n",
        symbols += "the # and of to\n";
  for (int i = 0; i < 60; ++i) stop += "zebra" + std::to_string(i * i) + " ";
  EXPECT_EQ(gopher(bullets, {}).rule, "gopher-bullets");
  EXPECT_EQ(gopher(symbols, {}).rule, "gopher-word-length");
  for (int i = 0; i < 20; ++i) copies += "the same line of words and that is it\n";
  EXPECT_EQ(gopher(copies, {}).rule, "gopher-repeated-lines");
  EXPECT_EQ(gopher(stop, {}).rule, "gopher-stop-words");
  std::string ngrams = document(2, 60);
  for (int i = 0; i < 12; ++i) ngrams += " buy cheap watches online today now";
  EXPECT_EQ(gopher(ngrams, {}).rule, "gopher-repeated-ngrams");
}

// Compared with an implementation that counts every n-gram as a string.
TEST(Quality, RepeatedNgramsMatchTheDefinition) {
  constexpr double kTop[] = {0.20, 0.18, 0.16}, kAll[] = {0.15, 0.14, 0.13, 0.12, 0.11, 0.10};
  GopherRules rules;
  rules.min_words = 1, rules.min_word_length = 1, rules.min_alphabetic = 0, rules.min_stop_words = 0;
  size_t failed = 0, passed = 0;
  for (uint64_t n = 0; n < 300; ++n) {
    const Rng rng(n, Purpose::kSynthetic);
    const uint64_t vocabulary = 2 + n * n / 40, count = 1 + rng.bits(0)[0] % 120;
    std::vector<std::string> words;
    std::string text;
    double characters = 0;
    for (uint64_t i = 1; i <= count; ++i) {
      // Every third text repeats its first eight words.
      const bool repeats = n % 3 == 0 && i > 8 && i % 24 < 8;
      words.push_back(repeats ? words[i % 24] : "w" + std::to_string(rng.bits(i)[0] % vocabulary));
      text += words.back() + " ", characters += static_cast<double>(words.back().size());
    }
    std::string expected;
    for (size_t k = 2; k <= 10 && k <= words.size() && expected.empty(); ++k) {
      std::map<std::string, int> counts;
      std::vector<bool> covered(words.size());
      double top = 0, all = 0;
      for (size_t at = 0; at + k <= words.size(); ++at) {
        std::string gram;
        double size = 0;
        for (size_t i = 0; i < k; ++i)
          gram += words[at + i] + " ", size += static_cast<double>(words[at + i].size());
        if (++counts[gram] < 2) continue;
        top = std::max(top, size * counts[gram]);
        for (size_t i = 0; i < k; ++i) covered[at + i] = true;
      }
      for (size_t i = 0; i < words.size(); ++i) all += covered[i] ? static_cast<double>(words[i].size()) : 0;
      const double share = (k <= 4 ? top : all) / characters, max_share = k <= 4 ? kTop[k - 2] : kAll[k - 5];
      if (share > max_share)
        expected = fmt::format("{}-grams that occur again are {:.2f} of the text, expected at most {:.2f}", k,
                               share, max_share);
    }
    EXPECT_EQ(gopher(text, rules).detail, expected) << text;
    expected.empty() ? ++passed : ++failed;
  }
  EXPECT_GT(failed, 50u);
  EXPECT_GT(passed, 50u);
}

TEST(Quality, C4KeepsSentences) {
  std::string text =
      "Menu\nThis is a sentence of words.\nAnother one is here too!\nShort one.\nAnd is this a third "
      "one?\nPlease enable javascript in your browser now.";
  EXPECT_EQ(c4(text).rule, "");
  EXPECT_EQ(text, "This is a sentence of words.\nAnother one is here too!\nAnd is this a third one?");
  std::string braces = "int main() { }", lorem = "Lorem ipsum dolor.",
              few = "One sentence is not enough here.";
  EXPECT_EQ(c4(braces).rule, "c4-braces");
  EXPECT_EQ(c4(lorem).rule, "c4-placeholder");
  EXPECT_EQ(c4(few).rule, "c4-sentences");
}

TEST(Pii, PlantedItemsAreFoundAndOrdinaryNumbersAreNot) {
  const std::vector<std::pair<const char*, Pii>> planted = {{"jane.doe+news@mail.example.co.uk", Pii::kEmail},
                                                            {"a_b@example.org", Pii::kEmail},
                                                            {"+44 20 7946 0958", Pii::kPhone},
                                                            {"(555) 123-4567", Pii::kPhone},
                                                            {"555-123-4567", Pii::kPhone},
                                                            {"555.123.4567", Pii::kPhone},
                                                            {"030 1234567", Pii::kPhone},
                                                            {"1-800-555-0199", Pii::kPhone},
                                                            {"4111 1111 1111 1111", Pii::kCard},
                                                            {"5500005555555559", Pii::kCard},
                                                            {"378282246310005", Pii::kCard},
                                                            {"192.168.10.254", Pii::kIp},
                                                            {"DE89 3704 0044 0532 0130 00", Pii::kIban},
                                                            {"GB82WEST12345698765432", Pii::kIban},
                                                            {"078-05-1120", Pii::kSsn}};
  size_t recalled = 0;
  for (const auto& [item, kind] : planted) {
    const PiiResult r = remove_pii(std::string("Write to ") + item + ", please.");
    recalled +=
        r.found[static_cast<size_t>(kind)] == 1 && r.total() == 1 && r.text.find(item) == std::string::npos;
    EXPECT_EQ(r.found[static_cast<size_t>(kind)], 1u) << item << " -> " << r.text;
  }
  EXPECT_EQ(recalled, planted.size());
  for (const char* ordinary :
       {"In 1999 there were 1,234,567 people.", "On 2024-01-31 at 12:30.", "31.12.2023", "version 1.2.3.4.5",
        "pi is 3.14159265358979", "4111 1111 1111 1112", "ISBN 9780306406157", "a @ b", "10 000 000 km",
        "chapters 1 2 3 4 5", "see @user", "$1000000000"})
    EXPECT_EQ(remove_pii(ordinary).text, ordinary);
  EXPECT_EQ(remove_pii("x@y.com y@x.org").text, "[EMAIL] [EMAIL]");
}

TEST(Languages, SamplesAreDistinguished) {
  const std::map<std::string, std::string> samples = {
      {"en",
       "the miller lived by a river and every morning he opened the gate and the water turned the wheel and "
       "the wheel turned the stone one summer the rain did "
       "not come the river grew thin and the wheel stood still"},
      {"de",
       "der mann wohnte an einem fluss und jeden morgen machte er das tor auf und das wasser drehte das rad "
       "und das rad drehte den stein in einem sommer kam der "
       "regen nicht und der fluss wurde schmal"},
      {"fr",
       "le meunier vivait au bord d'une rivi\u00E8re et chaque matin il ouvrait la porte et l'eau tournait "
       "la roue et la roue tournait la pierre un \u00E9t\u00E9 "
       "la pluie ne vint pas et la rivi\u00E8re devint mince"}};
  const auto model = LanguageId::train(samples);
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->detect("The boy and the girl went to the house by the water.").language, "en");
  EXPECT_EQ(model->detect("Das Kind und der Mann machten das Haus und das Tor auf.").language, "de");
  EXPECT_EQ(model->detect("La fille et la m\u00E8re ouvraient la porte de la maison.").language, "fr");
  const auto reloaded = LanguageId::from_json(*parse_json(model->json().dump(), "x"), "x");
  ASSERT_TRUE(reloaded.ok());
  EXPECT_EQ(reloaded->detect("the water").probability, model->detect("the water").probability);
  EXPECT_FALSE(LanguageId::train({{"en", samples.at("en")}}).ok());
  Json broken = model->json();
  broken["log_prob"][0].erase(0);
  EXPECT_FALSE(LanguageId::from_json(broken, "x").ok());
}

// The estimate follows the true Jaccard similarity of the shingles: standard error at most 0.044 for 128
// entries.
TEST(Duplicates, SignaturesEstimateJaccard) {
  double error = 0;
  for (uint64_t n = 0; n < 20; ++n) {
    const std::string a = document(n, 400);
    const size_t half = a.find('\n', a.size() / 2);
    const std::string b = a.substr(0, half) + document(n + 1000, 200);
    const auto shingles = [](const std::string& text) {
      std::set<std::string> out;
      WordSplitter splitter({"words", true});
      std::vector<std::string> words;
      for (const auto w : splitter.split(text))
        if (w != ".") words.emplace_back(w);
      for (size_t i = 0; i + 5 <= words.size(); ++i)
        out.insert(words[i] + " " + words[i + 1] + " " + words[i + 2] + " " + words[i + 3] + " " +
                   words[i + 4]);
      return out;
    };
    const auto x = shingles(a), y = shingles(b);
    double both = 0;
    for (const auto& s : x) both += y.contains(s);
    const double jaccard = both / (static_cast<double>(x.size() + y.size()) - both);
    EXPECT_EQ(exact_similarity(a, b), jaccard);
    error += std::abs(similarity(minhash(a), minhash(b)) - jaccard) / 20;
  }
  EXPECT_LT(error, 0.05);
}

TEST(Duplicates, PlantedDuplicatesAreFoundAndNothingElse) {
  auto near = NearDuplicates::create();
  ASSERT_TRUE(near.ok());
  // 400 documents; 100 of them again with a few words changed.
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < 400; ++i) texts.push_back(document(i, 300));
  for (uint64_t i = 0; i < 100; ++i) {
    std::string copy = texts[i];
    for (size_t k = 1; k <= 3; ++k) {
      const size_t at = copy.find(' ', copy.size() * k / 4);
      copy.insert(at, " inserted" + std::to_string(k));
    }
    texts.push_back(copy);
  }
  for (const std::string& text : texts) ASSERT_TRUE(near->add(minhash(text)).ok());
  const auto exact = [&](uint32_t a, uint32_t b) -> Result<double> {
    return exact_similarity(texts[a], texts[b]);
  };
  const auto groups = near->groups(0.8, exact);
  ASSERT_TRUE(groups.ok());
  size_t found = 0, wrong = 0;
  for (uint32_t i = 0; i < texts.size(); ++i) {
    if ((*groups)[i] == i) continue;
    i >= 400 && (*groups)[i] == i - 400 ? ++found : ++wrong;
  }
  EXPECT_EQ(found, 100u);  // recall
  EXPECT_EQ(wrong, 0u);    // precision
}

// Pairs on both sides of the threshold, closer to it than the error of a signature, are distinguished.
TEST(Duplicates, PairsNearTheThresholdAreComparedExactly) {
  auto near = NearDuplicates::create();
  ASSERT_TRUE(near.ok());
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < 60; ++i) {
    const std::string text = document(i, 300);
    std::string copy = text;
    for (size_t k = 1; k <= 5 + i % 6; ++k)
      copy.insert(copy.find(' ', copy.size() * k / 12), " inserted" + std::to_string(k));
    texts.push_back(text), texts.push_back(copy);
  }
  for (const std::string& text : texts) ASSERT_TRUE(near->add(minhash(text)).ok());
  const auto groups = near->groups(
      0.8, [&](uint32_t a, uint32_t b) -> Result<double> { return exact_similarity(texts[a], texts[b]); });
  ASSERT_TRUE(groups.ok());
  size_t above = 0;
  for (uint32_t i = 0; i < texts.size(); i += 2) {
    const bool similar = exact_similarity(texts[i], texts[i + 1]) >= 0.8;
    above += similar;
    EXPECT_EQ((*groups)[i + 1], similar ? i : i + 1);
  }
  EXPECT_GT(above, 10u);
  EXPECT_LT(above, 50u);
}

TEST(Contaminated, SharedNgramsAreFound) {
  ScratchFolder folder;
  const std::string path = folder.write("eval.jsonl",
                                        "{\"question\": \"Which river of Scotland flows through the city of "
                                        "Perth and into the firth of Tay near Dundee?\", "
                                        "\"answer\": \"the river Tay itself alone\"}\n");
  const auto c = Contamination::read({path}, 13);
  ASSERT_TRUE(c.ok()) << c.error().text();
  EXPECT_NE(
      c->shared("He asked: which river of Scotland flows, through the city of Perth and into the firth?"),
      "");
  EXPECT_EQ(c->shared("Which river of Scotland flows through the city?"), "");
  EXPECT_NE(c->shared("It is THE river Tay, itself alone."), "");  // a whole short text
}

TEST(Curate, EveryDropHasItsReason) {
  ScratchFolder folder;
  std::string lines;
  const auto add = [&](const std::string& text) { lines += Json{{"text", text}}.dump() + "\n"; };
  for (uint64_t i = 0; i < 50; ++i) add(document(i, 120) + " mail jane@example.org now.");
  add(document(3, 120) + " mail jane@example.org now.");                 // exact
  add(document(4, 120) + " mail jane@example.org now, or not at all.");  // near
  add("too short");
  add("<p></p>");
  add(document(900, 100) +
      " what is the seventh number of the secret list that nobody may ever know");  // contaminated
  const std::string data = folder.write("data.jsonl", lines);
  const std::string eval = folder.write(
      "eval.jsonl", "{\"q\": \"what is the seventh number of the secret list that nobody may ever know\"}\n");
  std::string first;
  for (const int threads : {1, 3}) {
    CurateOptions o;
    o.clean = {"html", "blanks"}, o.gopher = true, o.exact = true, o.near = 0.8, o.pii = true;
    o.contamination = 13, o.evaluation = {eval}, o.output = folder / "out.jsonl";
    ThreadPool pool(threads);
    const auto report = curate({data}, o, pool);
    ASSERT_TRUE(report.ok()) << report.error().text();
    EXPECT_EQ(report->documents, 55u);
    EXPECT_EQ(report->kept, 50u) << report->text();
    uint64_t dropped = 0;
    for (const auto& [reason, d] : report->drops) dropped += d.documents;
    EXPECT_EQ(dropped + report->kept, report->documents);
    for (const char* reason : {"exact-duplicate", "near-duplicate", "gopher-words", "empty", "contaminated"})
      EXPECT_EQ(report->drops.contains(reason) ? report->drops.at(reason).documents : 0, 1u)
          << reason << "\n"
          << report->text();
    EXPECT_GE(report->pii[0], 50u);
    const std::string out = *read_file(o.output);
    EXPECT_EQ(out.find("jane@"), std::string::npos);
    size_t entries = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++entries;
    EXPECT_EQ(entries, 3u);  // the two inputs and the output
    if (first.empty()) first = out;
    EXPECT_EQ(first, out);
  }
}

TEST(Curate, FieldsTokensWeightsAndGroupsAreApplied) {
  ScratchFolder folder;
  std::string lines;
  for (int i = 0; i < 400; ++i)
    lines +=
        Json{{"text", fmt::format("{} went to the house number {} by the river", i % 4 ? "She" : "He", i)},
             {"votes", i % 10},
             {"id", i}}
            .dump() +
        "\n";
  const std::string a = folder.write("a.jsonl", lines);
  const std::string b =
      folder.write("b.csv", "text,stars\nan old house of a Muslim girl,5\nno stars here,\nfew stars,1\n");
  const Representation groups = Representation::built_in();
  std::string first;
  for (const int threads : {1, 3})
    for (const double near : {0.0, 1.0}) {  // written at once, or after the groups of duplicates are known
      CurateOptions o;
      o.min_fields = {{"votes", 5}, {"stars", 3}}, o.keep_fields = true, o.groups = &groups;
      o.weights = {0.5, 3}, o.near = near, o.output = folder / "out.jsonl";
      o.min_tokens = 3, o.count_tokens = [](const std::string& text) {
        return static_cast<size_t>(std::count(text.begin(), text.end(), ' ')) + 1;
      };
      ThreadPool pool(threads);
      const auto report = curate({a, b}, o, pool);
      ASSERT_TRUE(report.ok()) << report.error().text();
      EXPECT_EQ(report->drops.at("field-votes").documents, 200u);
      EXPECT_EQ(report->drops.at("field-stars").documents, 1u);
      EXPECT_EQ(report->kept, 202u);
      EXPECT_NEAR(static_cast<double>(report->sources[0].written), 100, 25);
      EXPECT_EQ(report->sources[1].written, 6u);
      std::map<std::string, CurateReport::Group> by_group(report->groups.begin(), report->groups.end());
      // Every fourth document is about a man; half of all have too few votes.
      EXPECT_EQ(by_group["gender: men"].documents, 100u);
      EXPECT_EQ(by_group["gender: women"].documents, 301u);
      EXPECT_EQ(by_group["gender: women"].kept_documents + by_group["gender: men"].kept_documents, 201u);
      EXPECT_EQ(by_group["religion: muslim"].kept_mentions, 1u);
      const std::string out = *read_file(o.output);
      EXPECT_NE(out.find("\"votes\":7"), std::string::npos);
      EXPECT_EQ(out.find("\"votes\":3"), std::string::npos);
      if (first.empty()) first = out;
      EXPECT_EQ(first, out);
    }
}

TEST(Curate, GroupsAreReadFromAFile) {
  const auto groups = Representation::parse("a\tOne\r\na\ttwo\n\nb\ttwo\n", "g.tsv");
  ASSERT_TRUE(groups.ok()) << groups.error().text();
  EXPECT_EQ(groups->groups(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(groups->count("one, TWO two. Onetwo"), (std::vector<uint64_t>{3, 2}));
  for (const char* wrong : {"", "a one", "\tone", "a\t", "a\tone two"})
    EXPECT_FALSE(Representation::parse(wrong, "g.tsv").ok()) << wrong;
  EXPECT_NE(Representation::parse("a\tb\nc\n", "g.tsv").error().text().find("g.tsv:2:"), std::string::npos);
}

TEST(Curate, UnknownCleanersAreErrors) {
  CurateOptions o;
  o.clean = {"htm"};
  const Status s = check(o);
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.error().text().find("did you mean 'html'"), std::string::npos);
}

TEST(Names, AreFoundByRulesAndByATagger) {
  EXPECT_EQ(remove_names("I met Dr. Jane Smith and Mr Brown in Paris.", nullptr).text,
            "I met Dr. [NAME] and Mr [NAME] in Paris.");
  EXPECT_EQ(remove_names("John Miller wrote. Mark my words, the John was cold.", nullptr).text,
            "[NAME] wrote. Mark my words, the John was cold.");
  EXPECT_EQ(remove_names("", nullptr).text, "");
  TaggedSentences data;
  for (int i = 0; i < 20; ++i) {
    data.words.push_back({"then", "zorblax", "spoke"});
    data.tags.push_back({"O", "B-person", "O"});
  }
  const HmmTagger tagger = HmmTagger::train(data).value();
  const NamesResult tagged = remove_names("then zorblax spoke", &tagger);
  EXPECT_EQ(tagged.text, "then [NAME] spoke");
  EXPECT_EQ(tagged.found, 1u);
}

// The rules find the planted names and nothing else.
TEST(Names, RecallOnPlantedNames) {
  const char* first[] = {"Anna", "David", "Maria", "Peter"};
  const char* last[] = {"Keller", "Novak", "O'Brien", "Smith-Jones"};
  uint64_t found = 0;
  for (const char* f : first)
    for (const char* l : last) {
      const NamesResult r = remove_names(
          std::string("The report by ") + f + " " + l + " was read in Berlin on Monday.", nullptr);
      found += r.found;
      EXPECT_EQ(r.text, "The report by [NAME] was read in Berlin on Monday.");
    }
  EXPECT_EQ(found, 16u);
}

TEST(Curate, ToxicDocumentsAreDropped) {
  TextsWithLabels data;
  for (int i = 0; i < 30; ++i) {
    data.texts.push_back("you are a horrible fool " + std::to_string(i)), data.labels.emplace_back("toxic");
    data.texts.push_back("the weather is nice today " + std::to_string(i)), data.labels.emplace_back("fine");
  }
  const TextClassifier classifier = TextClassifier::train(data, {}).value();
  ScratchFolder folder;
  const std::string path = folder.path() + "/in.jsonl";
  ASSERT_TRUE(write_file(path,
                         "{\"text\": \"the weather is nice\\nyou are a horrible fool\"}\n{\"text\": \"the "
                         "weather is nice\"}\n")
                  .ok());
  CurateOptions o;
  o.output = folder.path() + "/out.jsonl", o.toxicity = &classifier;
  ThreadPool pool(2);
  const CurateReport report = curate({path}, o, pool).value();
  EXPECT_EQ(report.kept, 1u);
  EXPECT_EQ(report.drops.at("toxic").documents, 1u);
}

}  // namespace
