// Walks the syntax tree. Only the data given is reachable: there are no files, no modules, no attributes but
// keys of data and the methods listed in methods.cpp.
#pragma once
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "text/template/ast.h"
#include "text/template/print.h"

namespace makar::jinja {

// Names and values of one block, inside those of the block around it.
struct Scope {
  explicit Scope(std::shared_ptr<Scope> p) : parent(std::move(p)) {}
  Value* find(const std::string& name) {
    for (auto& [n, v] : names)
      if (n == name) return &v;
    return nullptr;
  }
  void set(const std::string& name, Value value) {
    if (Value* old = find(name))
      *old = std::move(value);
    else
      names.emplace_back(name, std::move(value));
  }
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> names;
};

// Arguments of a call, filter or test.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // The argument at `index` or called `name`; null where it is not given.
  const Value* get(size_t index, std::string_view name) const;
  Value get(size_t index, std::string_view name, Value otherwise) const {
    const Value* v = get(index, name);
    return v ? *v : otherwise;
  }
  const Value& need(size_t index, std::string_view name) const;
  // Fails when more than `most` positional arguments are given.
  void at_most(size_t most) const;
};

class Interpreter {
 public:
  Interpreter(const Limits& limits, Budget& budget, std::time_t now);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  void set(const std::string& name, Value value) { scope_->set(name, std::move(value)); }
  Traced run(const Program& program);

  Heap heap;
  Budget& budget;

  // For filters and tests.
  Value filter(const std::string& name, const Value& input, const Arguments& arguments);
  bool test(const std::string& name, const Value& input, const Arguments& arguments);
  Value attribute(const Value& object, const std::string& name);
  Value item(const Value& object, const Value& key);
  Value undefined(std::string why) const;
  Value call(const Value& function, const Arguments& arguments);
  std::time_t now() const { return now_; }

 private:
  enum class Flow { kNext, kBreak, kContinue };
  using Body = std::vector<Statement*>;

  // evaluate.cpp
  Value evaluate(const Expression& e);
  Value evaluate_node(const Expression& e);
  Value evaluate_compare(const Expression& e);
  Value evaluate_slice(const Expression& e);
  Value evaluate_call(const Expression& e);
  Value lookup(const Expression& e);
  Arguments arguments(const Expression& e);

  // execute.cpp
  Flow execute(const Body& body);
  Flow execute(const Statement& s);
  Flow execute_for(const Statement& s);
  void execute_call_block(const Statement& s);
  void assign(const std::vector<std::string>& targets, Value value);
  Value filtered(const Statement& s, Value value);
  Traced capture(const Body& body);
  void emit(const Traced& text);
  Value define(const Statement& s);
  Value call_macro(const CallableObject& macro, const Arguments& arguments);
  Value call_function(const std::string& name, const Arguments& arguments);

  // Enters a nested scope for the life of the object.
  struct Enter {
    explicit Enter(Interpreter& i, std::shared_ptr<Scope> parent = nullptr);
    ~Enter();
    Interpreter& interpreter;
    std::shared_ptr<Scope> outer;
  };
  // A buffer that output goes to for the life of the object.
  struct Output {
    explicit Output(Interpreter& i);
    ~Output();
    Interpreter& interpreter;
    Output* outer;
    Traced text;
    size_t charged = 0;
  };

  const Limits& limits_;
  std::time_t now_;
  std::shared_ptr<Scope> scope_;
  Output* output_ = nullptr;
  Origin inside_ = 0;  // kFromAssistant within a generation block
  int depth_ = 0, loops_ = 0;
  // Namespaces and the scopes of macros may refer to themselves; they are emptied at the end.
  std::vector<std::shared_ptr<DictObject>> namespaces_;
  std::vector<std::shared_ptr<Scope>> macro_scopes_;
};

// operators.cpp: + - * / // % ** on values.
Value arithmetic(const std::string& op, const Value& a, const Value& b, Interpreter& in);
Value negative(const Value& a);
bool contains(const Value& container, const Value& item, Interpreter& in);
// Python's slice of a list, tuple or string; null bounds are absent.
Value slice(const Value& v, const Value* start, const Value* stop, const Value* step, Interpreter& in);

// methods.cpp: the methods of strings, lists and dicts.
bool has_method(const Value& object, const std::string& name);
Value call_method(const Value& self, const std::string& name, const Arguments& arguments, Interpreter& in);

std::string format_time(const std::string& format, std::time_t now);

}  // namespace makar::jinja
