// The report of a curation as JSON and as Markdown.
#include <algorithm>
#include <cmath>

#include "base/markdown.h"
#include "curate/curate.h"

namespace makar {
namespace {

std::string bar(uint64_t count, const std::map<int, uint64_t>& all) {
  uint64_t max = 1;
  for (const auto& entry : all) max = std::max(max, entry.second);
  return std::string(1 + 29 * count / max, '#');
}

std::string length_histogram(const std::map<int, uint64_t>& before, const std::map<int, uint64_t>& after) {
  std::string out;
  for (const auto& [power, count] : before) {
    const auto at = after.find(power);
    out += fmt::format("{:>9} {:>9} {:>9}  {}\n", uint64_t{1} << power, count,
                       at == after.end() ? 0 : at->second, bar(count, before));
  }
  return out;
}

// A section with the lower end of each class and its number of documents; "" without any.
std::string histogram(const char* title, const std::map<int, uint64_t>& counts, double (*from)(int)) {
  if (counts.empty()) return "";
  std::string out = fmt::format("\n## {} (from, documents)\n\n```\n", title);
  for (const auto& [at, count] : counts)
    out += fmt::format("{:>9} {:>9}  {}\n", from(at), count, bar(count, counts));
  return out + "```\n";
}

double power_of_two(int at) { return std::ldexp(1.0, at); }
double tenth(int at) { return at / 10.0; }

Json histogram_json(const std::map<int, uint64_t>& counts, double (*from)(int)) {
  Json out = Json::array();
  for (const auto& [at, count] : counts) out.push_back({{"from", from(at)}, {"documents", count}});
  return out;
}

}  // namespace

Json CurateReport::json() const {
  Json out = {
      {"documents", documents},     {"bytes", bytes},         {"kept", kept}, {"kept_bytes", kept_bytes},
      {"bad_records", bad_records}, {"drops", Json::object()}};
  for (const auto& [reason, d] : drops)
    out["drops"][reason] = {{"documents", d.documents}, {"bytes", d.bytes}, {"example", d.example}};
  out["changed"] = changed, out["languages"] = languages;
  out["sources"] = Json::array();
  for (const Source& s : sources)
    out["sources"].push_back({{"path", s.path},
                              {"weight", s.weight},
                              {"documents", s.documents},
                              {"kept", s.kept},
                              {"written", s.written},
                              {"bytes", s.bytes}});
  if (!groups.empty()) out["groups"] = Json::object();
  for (const auto& [name, g] : groups)
    out["groups"][name] = {{"documents", g.documents},
                           {"mentions", g.mentions},
                           {"kept_documents", g.kept_documents},
                           {"kept_mentions", g.kept_mentions}};
  out["histograms"] = {{"bytes", histogram_json(lengths, power_of_two)},
                       {"kept_bytes", histogram_json(kept_lengths, power_of_two)}};
  if (!perplexities.empty()) out["histograms"]["perplexity"] = histogram_json(perplexities, power_of_two);
  if (!toxicities.empty()) out["histograms"]["toxicity"] = histogram_json(toxicities, tenth);
  out["pii"] = Json::object();
  for (size_t i = 0; i < kPiiKinds; ++i) out["pii"][name(static_cast<Pii>(i))] = pii[i];
  return out;
}

std::string CurateReport::text() const {
  const auto share = [](uint64_t part, uint64_t all) {
    return 100.0 * static_cast<double>(part) / static_cast<double>(std::max<uint64_t>(1, all));
  };
  std::string out = fmt::format("# Curation\n\n| | documents | bytes |\n|---|---|---|\n| read | {} | {} |\n",
                                documents, bytes);
  for (const auto& [reason, d] : drops)
    out += fmt::format("| dropped: {} | {} ({:.2f} %) | {} |\n", markdown_cell(reason), d.documents,
                       share(d.documents, documents), d.bytes);
  out += fmt::format("| kept | {} ({:.2f} %) | {} |\n", kept, share(kept, documents), kept_bytes);
  if (bad_records > 0) out += fmt::format("\n{} records could not be read.\n", bad_records);
  if (!drops.empty()) out += "\n## First of each reason\n\n";
  for (const auto& [reason, d] : drops) out += fmt::format("- {}: {}\n", reason, d.example);
  if (!changed.empty()) out += "\n## Changed by cleaners\n\n";
  for (const auto& [cleaner, count] : changed) out += fmt::format("- {}: {} documents\n", cleaner, count);
  if (!languages.empty()) out += "\n## Languages\n\n";
  for (const auto& [language, count] : languages) out += fmt::format("- {}: {} documents\n", language, count);
  if (sources.size() > 1 || (sources.size() == 1 && sources[0].weight != 1)) {
    uint64_t all = 0;
    for (const Source& s : sources) all += s.bytes;
    out +=
        "\n## Sources\n\n| | weight | read | kept | written | bytes | share "
        "|\n|---|---|---|---|---|---|---|\n";
    for (const Source& s : sources)
      out += fmt::format("| {} | {} | {} | {} | {} | {} | {:.1f} % |\n", markdown_cell(s.path), s.weight,
                         s.documents, s.kept, s.written, s.bytes, share(s.bytes, all));
  }
  if (!groups.empty()) {
    out +=
        "\n## Groups of people\n\nDocuments that mention a group, and the share of them that was kept "
        "(all documents: " +
        fmt::format(
            "{:.1f} %).\n\n| | documents | mentions | kept documents | kept mentions | kept |\n"
            "|---|---|---|---|---|---|\n",
            share(kept, documents));
    for (const auto& [name, g] : groups)
      out += fmt::format("| {} | {} | {} | {} | {} | {:.1f} % |\n", markdown_cell(name), g.documents,
                         g.mentions, g.kept_documents, g.kept_mentions, share(g.kept_documents, g.documents));
  }
  bool has_heading = false;
  for (size_t i = 0; i < kPiiKinds; ++i)
    if (pii[i] > 0) {
      if (!has_heading) out += "\n## Personal data replaced in kept documents\n\n";
      has_heading = true;
      out += fmt::format("- {}: {}\n", name(static_cast<Pii>(i)), pii[i]);
    }
  return out + histogram("Perplexity", perplexities, power_of_two) +
         histogram("Toxicity", toxicities, tenth) + "\n## Bytes per document (from, read, kept)\n\n```\n" +
         length_histogram(lengths, kept_lengths) + "```\n";
}

}  // namespace makar
