// Evaluates the syntax tree. Templates can access only the given data: no files, no modules, and no
// attributes other than keys of the data and the methods listed in methods.cpp.
#pragma once
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "base/stack_guard.h"
#include "text/template/ast.h"
#include "text/template/print.h"

namespace makar::jinja {

// Variables of one block; lookups continue in the enclosing scope.
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

  // The argument at `index` or with keyword `name`; null if it is absent.
  const Value* get(size_t index, std::string_view name) const;
  Value get(size_t index, std::string_view name, Value otherwise) const {
    const Value* v = get(index, name);
    return v ? *v : otherwise;
  }
  // The same; fails if the argument is absent.
  const Value& need(size_t index, std::string_view name) const;
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

  // An undefined value is an error, except as the input of `default` and of the tests `defined` and
  // `undefined`.
  bool strict = false;
  // Undefined values are allowed for the lifetime of this object.
  struct Lenient {
    explicit Lenient(Interpreter& i) : interpreter(i) { ++i.lenient_; }
    ~Lenient() { --interpreter.lenient_; }
    Lenient(const Lenient&) = delete;
    Lenient& operator=(const Lenient&) = delete;
    Interpreter& interpreter;
  };

 private:
  enum class Flow { kNext, kBreak, kContinue };
  using Body = std::vector<Statement*>;

  // evaluate.cpp
  Value evaluate(const Expression& e);
  Value evaluate_node(const Expression& e);
  Value evaluate_list(const Expression& e);
  Value evaluate_dict(const Expression& e);
  Value evaluate_concat(const Expression& e);
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
  Value capture_block(const Statement& s);
  Flow execute_with(const Statement& s);
  Flow execute_generation(const Statement& s);
  void assign(const std::vector<std::string>& targets, Value value);
  Value apply_filters(const Statement& s, Value value);
  Traced capture(const Body& body);
  void emit(const Traced& text);
  Value define_macro(const Statement& s);
  Value call_macro(const CallableObject& macro, const Arguments& arguments);
  Value call_function(const std::string& name, const Arguments& arguments);

  // Enters a nested scope for the lifetime of this object.
  struct Enter {
    explicit Enter(Interpreter& i, std::shared_ptr<Scope> parent = nullptr);
    ~Enter();
    Interpreter& interpreter;
    std::shared_ptr<Scope> outer;
  };
  // Redirects output to a buffer for the lifetime of this object.
  struct Output {
    explicit Output(Interpreter& i);
    ~Output();
    Interpreter& interpreter;
    Output* outer;
    Traced text;
    size_t charged = 0;
  };

  // Limits stack bytes: macro depth and expression depth multiply, so separate limits do not bound the stack.
  void check_stack() const {
    if (stack_.exceeded())
      fail_limit(fmt::format("macros, blocks and expressions need more than {} bytes of stack",
                             limits_.max_stack_bytes));
  }

  const Limits& limits_;
  const StackGuard stack_;
  std::time_t now_;
  std::shared_ptr<Scope> scope_;
  Output* output_ = nullptr;
  Origin generation_origin_ = 0;             // kFromAssistant inside a generation block
  int depth_ = 0, loops_ = 0, lenient_ = 0;  // nested scopes, nested loops, Lenient objects
  // Namespaces and macro scopes may contain reference cycles; they are cleared at the end.
  std::vector<std::shared_ptr<DictObject>> namespaces_;
  std::vector<std::shared_ptr<Scope>> macro_scopes_;
};

// operators.cpp: + - * / // % ** on values.
Value arithmetic(const std::string& op, const Value& a, const Value& b, Interpreter& in);
Value negative(const Value& a);
bool contains(const Value& container, const Value& item, Interpreter& in);
// Python slicing of a list, tuple or string; null bounds are absent.
Value slice(const Value& v, const Value* start, const Value* stop, const Value* step, Interpreter& in);

// methods.cpp: the methods of strings, lists and dicts.
bool has_method(const Value& object, const std::string& name);
Value call_method(const Value& self, const std::string& name, const Arguments& arguments, Interpreter& in);

std::string format_time(const std::string& format, std::time_t now);

}  // namespace makar::jinja
