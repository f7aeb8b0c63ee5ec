#include "apps/tools.h"

#include <algorithm>

#include "apps/calculator.h"
#include "apps/sql_question.h"
#include "base/lower_ascii.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "eval/sandbox.h"
#include "hub/http_client.h"
#include "retrieval/load/html.h"

namespace makar {
namespace {

constexpr size_t kMaxPageBytes = size_t{2} << 20;
constexpr size_t kMaxUrlBytes = 2048;
constexpr int64_t kMaxRows = 50, kMaxOutputBytes = 20000;

std::string rows_text(const SqlResult& result) {
  std::string out = fmt::format("{}\n", fmt::join(result.columns, " | "));
  for (const auto& row : result.rows) out += fmt::format("{}\n", fmt::join(row, " | "));
  return out + fmt::format("({} rows{})", result.rows.size(), result.truncated ? ", and more" : "");
}

}  // namespace

Tool calculator_tool() {
  Tool tool;
  tool.name = "calculator";
  tool.description = "exact arithmetic: + - * / % ^ ! ( ) abs min max gcd floor ceil round sqrt";
  tool.parameters = text_parameters("expression", "such as (23 * 47) / 2");
  tool.run = [](const Json& input, double) { return calculate(input["expression"].get<std::string>()); };
  return tool;
}

Tool search_tool(std::shared_ptr<Searcher> searcher, size_t k) {
  Tool tool;
  tool.name = "search";
  tool.description = "passages of the user's documents that match a query";
  tool.parameters = text_parameters("query", "words to look for");
  tool.untrusted = true;
  tool.run = [searcher = std::move(searcher), k](const Json& input, double) -> Result<std::string> {
    MAKAR_TRY(const auto hits, searcher->search(input["query"].get<std::string>(), k));
    if (hits.empty()) return std::string("nothing found");
    std::string out;
    for (size_t i = 0; i < hits.size(); ++i)
      out += fmt::format("[{}] {} ({}-{}): {}\n", i + 1, hits[i].chunk.name, hits[i].chunk.begin,
                         hits[i].chunk.end, hits[i].chunk.text);
    return out;
  };
  return tool;
}

Result<Tool> sql_tool(std::shared_ptr<SqlReader> database) {
  MAKAR_TRY(const auto tables, database->tables());
  Tool tool;
  tool.name = "sql";
  tool.description = fmt::format("one SELECT statement on a {} database with these tables:\n{}",
                                 database->dialect(), schema_text(tables));
  tool.parameters = text_parameters("query", "a SELECT statement");
  tool.untrusted = tool.untrusted_description = true;
  tool.run = [database = std::move(database)](const Json& input, double seconds) -> Result<std::string> {
    SqlLimits limits;
    limits.rows = kMaxRows, limits.bytes = 1 << 20, limits.seconds = std::min(5.0, std::max(seconds, 0.01));
    MAKAR_TRY(const SqlResult result, database->run(input["query"].get<std::string>(), limits));
    return rows_text(result);
  };
  return tool;
}

Result<std::string> host_of(const std::string& url) {
  const size_t scheme = url.starts_with("https://") ? 8 : url.starts_with("http://") ? 7 : 0;
  if (scheme == 0) return error_at("url", "expected http:// or https://, got {}", quote(url));
  if (url.size() > kMaxUrlBytes) return error_at("url", "is longer than {} bytes", kMaxUrlBytes);
  for (const char c : url)
    if (static_cast<unsigned char>(c) <= ' ' || c == '\\' || static_cast<unsigned char>(c) >= 0x7F)
      return error_at("url", "blanks, backslashes and characters beyond ASCII must be escaped");
  const std::string host = url.substr(scheme, url.find_first_of("/?#", scheme) - scheme);
  if (host.empty()) return error_at("url", "has no host");
  if (host.find('@') != std::string::npos) return error_at("url", "user names are not allowed");
  return lower_ascii(host);
}

Tool fetch_tool(std::vector<std::string> hosts) {
  Tool tool;
  tool.name = "fetch";
  tool.description = fmt::format("the text of a page on {}", fmt::join(hosts, ", "));
  tool.parameters = text_parameters("url", "http:// or https://");
  tool.untrusted = tool.effect = true;
  tool.run = [hosts = std::move(hosts)](const Json& input, double seconds) -> Result<std::string> {
    HttpClientRequest request;
    request.url = input["url"].get<std::string>();
    MAKAR_TRY(const std::string host, host_of(request.url));
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end())
      return error_of(Error::Kind::kUnsupported, "url", "the host {} is not allowed; allowed: {}",
                      quote(host), hosts.empty() ? "none" : fmt::format("{}", fmt::join(hosts, ", ")));
    request.redirects = false;
    request.seconds = std::max<int64_t>(1, static_cast<int64_t>(std::min(seconds, 30.0)));
    MAKAR_TRY(const std::string page, http_get(request, kMaxPageBytes));
    const bool html = page.find("<html") != std::string::npos || page.find("<HTML") != std::string::npos ||
                      page.starts_with("<!");
    std::string text = html ? read_html(page).text : page;
    return is_valid_utf8(text) ? text : to_valid_utf8(text);
  };
  return tool;
}

Tool code_tool(const std::string& language) {
  Tool tool;
  tool.name = "code";
  tool.description =
      fmt::format("runs a {} program without network or files and returns what it prints", language);
  tool.parameters = text_parameters("program", "the whole program; it must print its result");
  tool.untrusted = tool.effect = true;
  tool.run = [language](const Json& input, double seconds) -> Result<std::string> {
    ProgramLimits limits;
    limits.seconds = std::max(0.1, std::min(seconds, 10.0));
    limits.output = kMaxOutputBytes;
    MAKAR_TRY(const ProgramOutcome outcome,
              run_program(language, input["program"].get<std::string>(), limits));
    std::string text = is_valid_utf8(outcome.output) ? outcome.output : to_valid_utf8(outcome.output);
    if (outcome.timed_out)
      text += "\n(the time limit ended the program)";
    else if (!outcome.compiled)
      text += "\n(the program does not compile)";
    else if (!outcome.passed)
      text += "\n(the program failed)";
    return text.empty() ? "(the program printed nothing)" : text;
  };
  return tool;
}

}  // namespace makar
