// c10.cpp -- PyTorch's exceptions, for torch.cpp: the names and the layout of libc10.so.
#include <exception>
#include <string>

namespace c10
{

struct SourceLocation {
    const char *function;
    const char *file;
    unsigned line;
};

class __attribute__((visibility("default"))) Error : public std::exception
{
  public:
    Error(SourceLocation where, std::string message);
    ~Error() override;
    const char *what() const noexcept override;

  private:
    std::string message_;
    std::string where_;
};

class __attribute__((visibility("default"))) OutOfMemoryError : public Error
{
  public:
    using Error::Error;
    ~OutOfMemoryError() override;
};

Error::Error(SourceLocation where, std::string message)
    : message_(std::move(message)), where_(where.function)
{
}
Error::~Error() = default;
const char *Error::what() const noexcept
{
    return message_.c_str();
}
OutOfMemoryError::~OutOfMemoryError() = default;

} // namespace c10
