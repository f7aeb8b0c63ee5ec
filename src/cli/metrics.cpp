// makar metrics: the table of metrics and their dispatch.
#include "cli/metrics.h"

#include <fmt/format.h>

#include <cctype>

#include "base/nearest.h"
#include "cli/command_pages.h"
#include "metrics/fairness.h"
#include "metrics/rouge.h"

namespace makar {
namespace {

constexpr const char *kText = "Texts against references (--hyp, --ref)",
                     *kReferenceFree = "Texts alone (--hyp)", *kModel = "With a model (-m)",
                     *kLabels = "Labels (--hyp, --ref)", *kScores = "Probabilities and numbers",
                     *kRetrieval = "Retrieval (--run, --qrels)",
                     *kPrograms = "Comparisons and programs (--hyp)",
                     *kFairness = "Fairness (--hyp, --ref, --group)";
constexpr MetricCommand kMetrics[] = {
    {"bleu", "n-grams of words, as sacrebleu", run_text_metric, kText},
    {"chrf", "n-grams of characters, as sacrebleu", run_text_metric, kText},
    {"chrf++", "chrf with words", run_text_metric, kText},
    {"ter", "translation edit rate, as sacrebleu", run_text_metric, kText},
    {"rouge", "ROUGE-1, 2, L, Lsum, W, S, SU, or one of them: rougeL", run_text_metric, kText},
    {"meteor", "words, stems and synonyms, as nltk", run_text_metric, kText},
    {"wer", "word error rate", run_text_metric, kText},
    {"cer", "character error rate", run_text_metric, kText},
    {"eed", "extended edit distance", run_text_metric, kText},
    {"squad", "F1 and exact match of answers, as SQuAD", run_text_metric, kText},
    {"exact-match", "the same with exact match as the score", run_text_metric, kText},
    {"distinct", "distinct n-grams", run_reference_free_metric, kReferenceFree},
    {"self-bleu", "similarity of texts to each other", run_reference_free_metric, kReferenceFree},
    {"repetition", "repeated n-grams within texts", run_reference_free_metric, kReferenceFree},
    {"diversity", "lexical diversity: TTR, MATTR, MTLD", run_reference_free_metric, kReferenceFree},
    {"bertscore", "cosine of token vectors of an encoder", run_bert_score, kModel},
    {"bleurt", "a regression head on an encoder, trained by its subcommand", run_learned_metric, kModel},
    {"grammaticality", "probability of a classifier of acceptable sentences (CoLA)",
     run_grammaticality_metric, kModel},
    {"perplexity", "perplexity, bits per byte and token accuracy", run_perplexity_metric, kModel},
    {"accuracy", "share of equal labels", run_label_metric, kLabels},
    {"f1", "F1 of labels: macro, micro or weighted", run_label_metric, kLabels},
    {"mcc", "Matthews' correlation", run_label_metric, kLabels},
    {"kappa", "Cohen's kappa of two raters", run_label_metric, kLabels},
    {"fleiss", "Fleiss' kappa of several raters (--hyp for each)", run_agreement_metric, kLabels},
    {"span-f1", "F1 of labelled spans in BIO tags", run_span_metric, kLabels},
    {"auroc", "area under the ROC curve", run_probability_metric, kScores},
    {"average-precision", "area under the precision-recall curve", run_probability_metric, kScores},
    {"calibration", "expected calibration error, with a chart", run_probability_metric, kScores},
    {"brier", "Brier score", run_probability_metric, kScores},
    {"log-loss", "cross-entropy of probabilities", run_probability_metric, kScores},
    {"pearson", "correlation of numbers", run_number_metric, kScores},
    {"spearman", "correlation of ranks", run_number_metric, kScores},
    {"kendall", "correlation of orders (tau-b)", run_number_metric, kScores},
    {"ndcg", "normalised discounted cumulative gain; ndcg@10 cuts the list", run_ranking_metric, kRetrieval},
    {"map", "mean average precision", run_ranking_metric, kRetrieval},
    {"mrr", "mean reciprocal rank", run_ranking_metric, kRetrieval},
    {"precision", "relevant share of the list; precision@5", run_ranking_metric, kRetrieval},
    {"recall", "share of the relevant documents found; recall@100", run_ranking_metric, kRetrieval},
    {"hit-rate", "share of queries with a relevant document; hit-rate@1", run_ranking_metric, kRetrieval},
    {"win-rate", "share of comparisons won; a tie counts half", run_win_metric, kPrograms},
    {"pass", "probability that one of k samples passes; pass@10", run_pass_metric, kPrograms},
    {"fairness", "demographic parity, equal opportunity, equalized odds", run_fairness_metric, kFairness},
    {"representation", "how often each group occurs (--group alone)", run_representation_metric, kFairness},
};

std::vector<Command> metric_rows() {
  std::vector<Command> rows;
  for (const MetricCommand& m : kMetrics) rows.push_back({m.name, m.summary, nullptr, m.group});
  return rows;
}

CommandPage metrics_page() {
  return CommandPage::from("metrics",
                           "Score texts, labels, rankings and decisions, with a signature and a confidence "
                           "interval; two systems (--hyp twice) are compared by paired tests.",
                           "makar metrics bleu --hyp output.de --ref reference.de", metric_rows());
}

void list_metrics(std::FILE* out) {
  fmt::print(out,
             "Score texts, labels, rankings and decisions, with a signature and a confidence\n"
             "interval; two systems (--hyp twice) are compared by paired tests.\n\n"
             "usage: makar metrics NAME [options]\n\n");
  print_commands(out, metric_rows());
  fmt::print(out,
             "\n`makar metrics NAME --help` lists the options of a metric.\n\n"
             "example: makar metrics bleu --hyp output.de --ref reference.de\n");
}

// "ROUGE-L", "rouge_l" and "rougel" are rougeL.
std::string rouge_name(const std::string& name) {
  std::string letters;
  for (const char c : name)
    if (c != '-' && c != '_') letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* kind : {"rougeL", "rougeLsum", "rougeW", "rougeS", "rougeSU"}) {
    std::string lower = kind;
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (letters == lower) return kind;
  }
  return is_rouge_kind(letters) ? letters : name;
}

// A metric's name in another program: the name in the table, and the arguments that give the same score.
struct OtherName {
  const char* other;
  const char* name;
  std::vector<std::string> arguments = {};
};
const OtherName* other_name(const std::string& name) {
  static const OtherName kOther[] = {{"sacrebleu", "bleu"},
                                     {"em", "exact-match"},
                                     {"bert-score", "bertscore"},
                                     {"classification", "accuracy"},
                                     {"confusion", "accuracy"},
                                     {"f1-macro", "f1", {"--average", "macro"}},
                                     {"f1-micro", "f1", {"--average", "micro"}},
                                     {"f1-weighted", "f1", {"--average", "weighted"}},
                                     {"matthews-corrcoef", "mcc"},
                                     {"cohen-kappa", "kappa"},
                                     {"fleiss-kappa", "fleiss"},
                                     {"roc-auc", "auroc"},
                                     {"ece", "calibration"},
                                     {"calibration-error", "calibration"},
                                     {"seqeval", "span-f1"}};
  for (const OtherName& o : kOther)
    if (name == o.other) return &o;
  return nullptr;
}

// The name of the row of kMetrics: rouge for rouge2, ndcg for ndcg@10.
std::string table_name(const std::string& name) {
  if (is_rouge_kind(name)) return "rouge";
  for (const std::string& known : fairness_metrics())
    if (name == known) return "fairness";
  std::string base = name.substr(0, name.find('@'));
  for (char& c : base)
    if (c == '_') c = '-';
  return base;
}

}  // namespace

int run_metrics(const std::vector<std::string>& arguments) {
  const bool help = !arguments.empty() && (arguments[0] == "--help" || arguments[0] == "-h");
  if (help && collects_pages()) return store_page(metrics_page()), 0;
  if (arguments.empty() || help) return list_metrics(help ? stdout : stderr), help ? 0 : 2;
  const std::string full_name = rouge_name(arguments[0]);
  std::string name = table_name(full_name);
  std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (const OtherName* other = other_name(name)) {
    name = other->name;
    rest.insert(rest.begin(), other->arguments.begin(), other->arguments.end());
  }
  std::vector<std::string> known;
  for (const MetricCommand& m : kMetrics) {
    // A metric with variants gets the full name: rouge2, ndcg@10.
    const bool has_variants = name == "rouge" || m.run == run_ranking_metric || m.run == run_pass_metric ||
                              m.run == run_fairness_metric;
    if (name == m.name) return m.run(has_variants ? full_name : name, rest);
    known.emplace_back(m.name);
  }
  fmt::print(stderr, "makar metrics: unknown metric '{}'{}; `makar metrics --help` lists them\n",
             arguments[0], did_you_mean(arguments[0], known));
  return 2;
}

}  // namespace makar
