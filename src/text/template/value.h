// Values of the template language: the subset of Python values that chat templates use. Lists and dicts are
// immutable (transformers renders in an immutable sandbox), so only namespaces can contain themselves.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/template/budget.h"
#include "text/template/traced.h"

namespace makar::jinja {

constexpr int kMaxContainerDepth = 80;  // JSON input may be nested 64 deep

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kNamespace,
  kLoop,
  kCallable
};

struct Object;
struct StringObject;
struct ListObject;
struct DictObject;
struct LoopObject;
struct CallableObject;

class Value {
 public:
  Value() : integer_(0) {}
  static Value none() { return Value(Kind::kNone); }
  static Value boolean(bool b) { return Value(Kind::kBool, b); }
  static Value integer(int64_t i) { return Value(Kind::kInt, i); }
  static Value real(double d) {
    Value v(Kind::kFloat);
    v.real_ = d;
    return v;
  }
  Value(Kind kind, std::shared_ptr<Object> object) : kind_(kind), integer_(0), object_(std::move(object)) {}

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  bool is_number() const { return kind_ == Kind::kInt || kind_ == Kind::kFloat || kind_ == Kind::kBool; }
  // As in Python, booleans are integers.
  bool is_integer() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }

  int64_t integer() const { return integer_; }  // of kInt and kBool
  double real() const { return kind_ == Kind::kFloat ? real_ : static_cast<double>(integer_); }
  const Traced& traced() const;
  const std::string& text() const { return traced().text(); }
  const std::vector<Value>& items() const;
  DictObject& dict() const;  // of kDict and kNamespace
  LoopObject& loop() const;
  CallableObject& callable() const;
  const std::shared_ptr<Object>& object() const { return object_; }

  // Numbers, booleans and none also record whether they come from the data, so that their printed text keeps
  // the origin.
  Origin origin() const { return origin_; }
  Value with_origin(Origin origin) const {
    Value v = *this;
    v.origin_ |= origin;
    return v;
  }

 private:
  explicit Value(Kind kind, int64_t i = 0) : kind_(kind), integer_(i) {}
  Kind kind_ = Kind::kUndefined;
  Origin origin_ = kFromTemplate;
  union {
    int64_t integer_;
    double real_;
  };
  std::shared_ptr<Object> object_;
};

// The heap object of a value. Objects created during rendering are charged to the budget while they live.
struct Object {
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() {
    if (budget) budget->release(charged);
  }
  void charge(Budget& to, size_t bytes) {
    to.allocate(bytes);
    budget = &to, charged += bytes;
  }
  Budget* budget = nullptr;
  size_t charged = 0;
  int depth = 0;
};

struct StringObject : Object {
  explicit StringObject(Traced t) : traced(std::move(t)) {}
  Traced traced;
};
struct ListObject : Object {
  std::vector<Value> items;
};
struct DictObject : Object {
  std::vector<std::pair<Value, Value>> items;
  Origin origin = kFromTemplate;  // origin of the punctuation when the dict itself is printed
  const Value* find(std::string_view key) const;
};
struct LoopObject : Object {
  Value list;
  size_t index = 0;
  int level = 1;
  std::vector<Value> last_changed;  // the arguments of the last call of loop.changed()
};

struct Statement;
struct Scope;
struct CallableObject : Object {
  enum class Type { kMethod, kFunction, kMacro } type = Type::kFunction;
  std::string name;
  Value self;                        // of a method
  const Statement* macro = nullptr;  // a macro's definition, or the call block of a caller
  std::shared_ptr<Scope> scope;      // where the macro was defined
};

// Creates values and charges them to the budget.
class Heap {
 public:
  explicit Heap(Budget& b) : budget(b) {}
  Value string(Traced text);
  Value string(std::string text, Origin origin = kFromTemplate) {
    return string(Traced(std::move(text), origin));
  }
  Value list(std::vector<Value> items, Kind kind = Kind::kList);
  Value dict(std::vector<std::pair<Value, Value>> items, Origin origin = kFromTemplate);
  Value method(Value self, std::string name);
  // Converts input data: everything is marked as content, except known roles of messages, which count as
  // template text.
  Value content(const Json& json, Origin origin = kFromContent);
  Value messages(const Json& json);
  Budget& budget;
};

const char* type_name(const Value& v);
bool truthy(const Value& v);
bool equal(const Value& a, const Value& b, Budget& budget);
// -1, 0, 1 in Python's order; fails on values without an order.
int compare(const Value& a, const Value& b, Budget& budget);
int64_t length(const Value& v);
// The items of a `for` loop over the value.
std::vector<Value> iterate(const Value& v, Heap& heap);
const Value* find(const Value& dict, const Value& key, Budget& budget);

}  // namespace makar::jinja
