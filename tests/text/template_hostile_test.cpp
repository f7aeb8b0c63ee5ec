// Hostile templates and data give typed errors within a second. The memory they need is printed.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>

#include <chrono>
#include <functional>

#include "text/template/chat_template.h"

namespace makar {
namespace {

std::string repeat(const std::string& s, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += s;
  return out;
}

struct Case {
  const char* name;
  std::string source;
  Error::Kind kind;
};

const std::vector<Case>& cases() {
  using K = Error::Kind;
  static const std::vector<Case> all = {
      {"nested loops", repeat("{% for a in range(99999) %}", 6) + "{{ a }}" + repeat("{% endfor %}", 6),
       K::kLimit},
      {"loops without output", repeat("{% for a in range(99999) %}", 6) + repeat("{% endfor %}", 6),
       K::kLimit},
      {"long range", "{{ range(1000000000) }}", K::kLimit},
      {"many ranges",
       "{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = ns.l + [range(99999)] %}{% "
       "endfor %}",
       K::kLimit},
      {"doubling text",
       "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor "
       "%}",
       K::kLimit},
      {"repetition", "{{ 'x' * 1000000000000 }}", K::kLimit},
      {"list repetition", "{{ [1] * 999999999 }}", K::kLimit},
      {"replace bomb", "{{ ('a' * 10000).replace('a', 'b' * 10000) }}", K::kLimit},
      {"join bomb", "{{ (['a' * 5000] * 5000) | join('b' * 5000) }}", K::kLimit},
      {"output bomb", "{% for i in range(99999) %}" + std::string(1000, 'x') + "{% endfor %}", K::kLimit},
      {"width bomb", "{{ '%9999999d' % 1 }}", K::kLimit},
      {"pad bomb", "{{ 'x'.ljust(99999999999) }}", K::kLimit},
      {"indent bomb", "{{ ('a\\n' * 3000) | indent(1000) }}", K::kLimit},
      {"recursion", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", K::kLimit},
      {"mutual recursion",
       "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}", K::kLimit},
      {"caller recursion", "{% macro m() %}{% call m() %}x{% endcall %}{% endmacro %}{{ m() }}", K::kLimit},
      {"recursion in deep sums", "{% macro m() %}{{ m()" + repeat("+''", 290) + " }}{% endmacro %}{{ m() }}",
       K::kLimit},
      {"recursion in deep filters",
       "{% macro m() %}{{ m()" + repeat("|trim", 290) + " }}{% endmacro %}{{ m() }}", K::kLimit},
      {"recursion in defaults",
       "{% macro m(a=m()" + repeat("+''", 290) + ") %}{{ a }}{% endmacro %}{{ m() }}", K::kLimit},
      {"recursion in conditions",
       "{% macro m() %}" + std::string("{% if m()") + repeat(".x", 290) +
           " %}{% endif %}{% endmacro %}{{ m() }}",
       K::kLimit},
      {"recursion in blocks",
       "{% macro m() %}" + repeat("{% if 1 %}", 90) + "{{ m()" + repeat("+''", 290) + " }}" +
           repeat("{% endif %}", 90) + "{% endmacro %}{{ m() }}",
       K::kLimit},
      {"deep parentheses", "{{ " + repeat("(", 5000) + "1" + repeat(")", 5000) + " }}", K::kLimit},
      {"deep lists", "{{ " + repeat("[", 5000) + repeat("]", 5000) + " }}", K::kLimit},
      {"deep not", "{{ " + repeat("not ", 20000) + "1 }}", K::kLimit},
      {"deep minus", "{{ " + repeat("-", 20000) + "1 }}", K::kLimit},
      {"deep ifs", repeat("{% if 1 %}", 5000) + repeat("{% endif %}", 5000), K::kLimit},
      {"deep else", "{{ " + repeat("1 if 0 else ", 8000) + "1 }}", K::kLimit},
      {"long sum", "{{ " + repeat("1+", 9000) + "1 }}", K::kLimit},
      {"long filters", "{{ 1" + repeat("|abs", 9000) + " }}", K::kLimit},
      {"long attributes", "{{ a" + repeat(".b", 9000) + " }}", K::kLimit},
      {"deep value",
       "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}",
       K::kLimit},
      {"wide value",
       "{% set ns = namespace(l=[1]) %}{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ "
       "ns.l }}",
       K::kLimit},
      {"wide json",
       "{% set ns = namespace(l=[1]) %}{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ "
       "ns.l | tojson }}",
       K::kLimit},
      {"wide equality",
       "{% set a = namespace(l=[1]) %}{% set b = namespace(l=[1]) %}{% for i in range(40) %}{% set a.l = "
       "[a.l, a.l] %}{% set b.l = [b.l, b.l] %}{% endfor %}{{ a.l == b.l }}",
       K::kLimit},
      {"retained loops",
       "{% set ns = namespace(l=0) %}{% for i in range(9999) %}{% for x in [ns.l] %}{% set ns.l = loop %}{% "
       "endfor %}{% endfor %}",
       K::kLimit},
      {"many namespaces",
       "{% set ns = namespace() %}{% for i in range(99999) %}{% set ns.n = namespace(a=ns.n) %}{% endfor %}",
       K::kLimit},
      {"many expressions", repeat("{{1}}", 25000), K::kLimit},
      {"large template", std::string(1 << 20, 'x'), K::kLimit},
      {"sort bomb", "{% for i in range(999) %}{{ range(9999) | sort | length }}{% endfor %}", K::kLimit},
      {"unique bomb", "{{ range(99999) | unique | list | length }}", K::kLimit},
      {"power", "{{ 9 ** 9999 }}", K::kInvalid},
      {"overflow", "{{ 9223372036854775807 + 1 }}", K::kInvalid},
      {"class", "{{ ''.__class__.__mro__[1].__subclasses__() }}", K::kInvalid},
      {"globals", "{{ messages.__init__.__globals__ }}", K::kInvalid},
      {"attr filter", "{{ '' | attr('__class__') }}", K::kInvalid},
      {"map attribute", "{{ [''] | map(attribute='__class__') | list }}", K::kInvalid},
      {"self", "{{ self.__init__ }}", K::kInvalid},
      {"cycler", "{{ cycler.__init__.__globals__.os }}", K::kInvalid},
      {"format attribute", "{{ '{0.__class__}'.format(1) }}", K::kInvalid},
      {"modulo zero", "{{ 1 % 0 }}", K::kInvalid},
      {"smallest integer divided", "{{ (-9223372036854775807 - 1) // -1 }}", K::kInvalid},
      {"slice step", "{{ 'abc'[::0] }}", K::kInvalid},
      {"append", "{{ messages.append(1) }}", K::kInvalid},
      {"bad escape", "{{ '\\ud800' }}", K::kInvalid},
      {"bad utf8", "\xff\xfe", K::kInvalid},
      {"open string", "{{ 'abc", K::kInvalid},
      {"open comment", "{# abc", K::kInvalid},
      {"open raw", "{% raw %} abc", K::kInvalid},
      {"stray close", "{{ ) }}", K::kInvalid},
      {"self reference", "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns | tojson }}", K::kInvalid},
  };
  return all;
}

long peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// Runs `body` on a thread with a stack of `bytes`.
void on_small_stack(size_t bytes, std::function<void()> body) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, bytes);
  pthread_t thread;
  const auto call = [](void* f) -> void* { return (*static_cast<std::function<void()>*>(f))(), nullptr; };
  ASSERT_EQ(pthread_create(&thread, &attributes, call, &body), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

// The limit follows from the actual size of the stack, not from a fixed number of levels.
TEST(TemplateHostile, RecursionEndsInAnErrorOnAnyStack) {
  for (const size_t kib : {256, 512, 2048})
    on_small_stack(kib << 10, [&] {
      for (const Case& c : cases()) {
        const std::string_view name = c.name;
        if (!name.starts_with("recursion") && !name.starts_with("deep")) continue;
        const auto t = ChatTemplate::parse(c.source, "t");
        const Error error = t.ok() ? t->render({}).error() : t.error();
        EXPECT_EQ(error.kind, c.kind) << c.name << " on " << kib << " KiB: " << error.text();
      }
    });
}

// A request's budget stops a rendering that the template's own limits allow.
TEST(TemplateHostile, TheBudgetOfTheRequestEndsARendering) {
  const auto t = ChatTemplate::parse("{% for m in messages %}{{ m.content }}{% endfor %}", "t");
  ChatInput input;
  for (int i = 0; i < 20000; ++i) input.messages.push_back({{"role", "user"}, {"content", "x"}});
  ASSERT_TRUE(t->render(input).ok());
  const auto cancel = std::make_shared<std::atomic<bool>>(true);
  WorkBudget cancelled(WorkBudget::kUnlimited, WorkBudget::Clock::time_point::max(), cancel), small(10'000);
  for (WorkBudget* work : {&cancelled, &small}) {
    input.work = work;
    const auto r = t->render(input);
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().kind, Error::Kind::kLimit);
  }
}

TEST(TemplateHostile, StopsWithTypedErrors) {
  cases();  // builds the sources before the memory is measured
  const long before = peak_kib();
  for (const Case& c : cases()) {
    const auto start = std::chrono::steady_clock::now();
    const auto t = ChatTemplate::parse(c.source, "t");
    Error error;
    if (!t.ok()) {
      error = t.error();
    } else {
      ChatInput input;
      input.messages = Json::parse(R"([{"role": "user", "content": "hi"}])");
      const auto r = t->render(input);
      ASSERT_FALSE(r.ok()) << c.name;
      error = r.error();
    }
    const double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    EXPECT_EQ(error.kind, c.kind) << c.name << ": " << error.text();
    EXPECT_FALSE(error.message.empty());
    RecordProperty(c.name, std::to_string(ms));
    if (ms > 40) std::printf("%s: %.1f ms, %s\n", c.name, ms, error.text().c_str());
    EXPECT_LT(ms, 1000) << c.name;
  }
  // All cases in sequence, including memory retained by the allocator.
  RecordProperty("peak_growth_kib", static_cast<int>(peak_kib() - before));
  std::printf("memory grew by %ld KiB\n", peak_kib() - before);
}

TEST(TemplateHostile, LongConversationsStillRender) {
  ChatInput input;
  for (int i = 0; i < 2000; ++i)
    input.messages.push_back(
        {{"role", i % 2 ? "assistant" : "user"}, {"content", std::string(500, 'a' + i % 26)}});
  const auto t = ChatTemplate::parse(
      "{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}<|end|>\n{% endfor %}", "t");
  ASSERT_TRUE(t.ok());
  const auto r = t->render(input);
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_GT(r->text().size(), 1000000u);
}

// Neither crashes nor hangs.
TEST(TemplateHostile, EveryPrefixOfATemplateIsHandled) {
  const std::string source =
      "{%- macro m(a, b=1) -%}{{ a ~ b | tojson(indent=2) }}{%- endmacro -%}{# c #}{% for k, v in d.items() "
      "if v is not none %}"
      "{{ m(k[::-1], b={'x': [1, (2,)]}) if loop.first else 'no' }}{% else %}{% raw %}{{{% endraw %}{% "
      "endfor %}{% set ns = namespace(x=0x1f) %}";
  for (size_t n = 0; n <= source.size(); ++n) {
    const auto t = ChatTemplate::parse(source.substr(0, n), "t");
    if (t.ok()) (void)t->render({});
  }
}

}  // namespace
}  // namespace makar
