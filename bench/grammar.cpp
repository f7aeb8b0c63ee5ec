// Time of grammar masks with a real vocabulary, one JSON object per line: random documents are generated
// through the masks, token by token, and the time of mask and accept is divided by the number of tokens.
//   grammar TOKENIZER [--documents N] [--peer NAME --peer-value MICROSECONDS]
// "makar_value" is microseconds per token including the cost of filling the caches; "first" is the first
// document alone, "worst" the slowest single mask.
#include "infer/grammar/grammar.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "base/json.h"
#include "base/rng.h"
#include "bench/timing.h"
#include "text/token_bytes.h"

namespace {

using namespace makar;

struct Case {
  const char* name;
  Result<Grammar> (*make)(std::string_view, const GrammarLimits&, WorkBudget*);
  const char* text;
};

const char* kPerson =
    R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,
 "maximum":150},"email":{"type":"string","format":"email"},"tags":{"type":"array","items":{"type":"string"},"maxItems":8},
 "address":{"type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"},"zip":{"type":"string",
 "pattern":"^\\d{5}$"}},"required":["street","city"],"additionalProperties":false},"active":{"type":"boolean"},
 "kind":{"enum":["person","company","other"]}},"required":["name","age","kind"],"additionalProperties":false})";
const char* kChat = R"(root ::= line+
line ::= ("A" | "B") ": " sentence ("\n" | "\n\n")
sentence ::= word (" " word)* [.!?]
word ::= [a-zA-Z']+ ","?)";

const Case kCases[] = {
    {"any JSON", Grammar::from_json_schema, "{}"},
    {"schema of a person", Grammar::from_json_schema, kPerson},
    {"strings of bounded length", Grammar::from_json_schema,
     R"({"type":"array","items":{"type":"string","minLength":3,"maxLength":120},"minItems":3,"maxItems":10})"},
    {"regular expression", Grammar::from_regex, R"((\w+ ){3,20}\d{4}-\d{2}-\d{2}( [^\n]{0,40})?)"},
    {"GBNF of a dialogue", Grammar::from_gbnf, kChat},
};

struct MaskTimes {
  double seconds = 0, worst = 0;
  size_t tokens = 0;
};

// Chooses uniformly among the allowed tokens, so the documents are as unusual as the grammar permits.
MaskTimes generate_document(const Grammar& grammar, const TokenTrie& trie,
                            const std::vector<std::string>& bytes, uint64_t seed) {
  constexpr size_t kMaxTokens = 400;
  const Rng rng(seed, Purpose::kSynthetic);
  std::vector<uint64_t> mask(trie.words());
  GrammarState state(grammar);
  MaskTimes run;
  for (; run.tokens < kMaxTokens && !state.must_end(); ++run.tokens) {
    const double begin = bench::cpu_seconds();
    if (!state.mask(trie, mask).ok()) std::exit(1);
    const double mask_end = bench::cpu_seconds();
    size_t allowed = 0;
    for (const uint64_t word : mask) allowed += static_cast<size_t>(std::popcount(word));
    size_t pick = rng.bits(run.tokens)[0] % allowed, id = 0;
    for (size_t w = 0; w < mask.size(); ++w) {
      const size_t count = static_cast<size_t>(std::popcount(mask[w]));
      if (pick < count) {
        uint64_t word = mask[w];
        for (; pick > 0; --pick) word &= word - 1;
        id = w * 64 + static_cast<size_t>(std::countr_zero(word));
        break;
      }
      pick -= count;
    }
    if (bytes[id].empty()) break;  // the end token
    const double from = bench::cpu_seconds();
    if (!state.accept(bytes[id])) std::exit(2);
    run.seconds += (mask_end - begin) + (bench::cpu_seconds() - from);
    run.worst = std::max(run.worst, mask_end - begin);
  }
  return run;
}

}  // namespace

int main(int argc, char** argv) {
  int documents = 20;
  std::string peer = "";
  double peer_value = 0;
  for (int i = 2; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--documents")) documents = std::atoi(argv[i + 1]);
    if (!std::strcmp(argv[i], "--peer")) peer = argv[i + 1];
    if (!std::strcmp(argv[i], "--peer-value")) peer_value = std::atof(argv[i + 1]);
  }
  if (argc < 2) return fmt::print(stderr, "usage: grammar TOKENIZER [--documents N]\n"), 2;
  const auto tokenizer = Tokenizer::load(argv[1]);
  if (!tokenizer.ok()) return fmt::print(stderr, "{}\n", tokenizer.error().text()), 1;
  const std::vector<std::string> bytes = token_bytes(*tokenizer);
  int64_t end = 0;
  while (!bytes[static_cast<size_t>(end)].empty()) ++end;
  const double begin = bench::cpu_seconds();
  const TokenTrie trie(bytes, {end});
  fmt::print(stderr, "{} tokens, {} nodes, built in {:.1f} ms\n", trie.vocab(), trie.data().byte.size(),
             (bench::cpu_seconds() - begin) * 1e3);
  for (const Case& c : kCases) {
    const double start = bench::cpu_seconds();
    const auto grammar = c.make(c.text, {}, nullptr);
    if (!grammar.ok()) return fmt::print(stderr, "{}\n", grammar.error().text()), 1;
    const double compiled = bench::cpu_seconds() - start;
    MaskTimes total;
    double first = 0;
    for (int i = 0; i < documents; ++i) {
      const MaskTimes document = generate_document(*grammar, trie, bytes, static_cast<uint64_t>(i));
      if (i == 0) first = document.seconds / static_cast<double>(std::max<size_t>(document.tokens, 1)) * 1e6;
      total.seconds += document.seconds, total.tokens += document.tokens,
          total.worst = std::max(total.worst, document.worst);
    }
    const double microseconds = total.seconds / static_cast<double>(std::max<size_t>(total.tokens, 1)) * 1e6;
    fmt::print("{}\n", Json{{"bench", "grammar"},
                            {"case", c.name},
                            {"threads", 1},
                            {"makar_value", microseconds},
                            {"peer", peer},
                            {"peer_value", peer_value},
                            {"unit", "us"},
                            {"ratio", peer_value > 0 ? peer_value / microseconds : 0.0},
                            {"spread", 0.0},
                            {"first", first},
                            {"worst", total.worst * 1e6},
                            {"compile_ms", compiled * 1e3},
                            {"tokens", total.tokens}}
                           .dump());
  }
  return 0;
}
