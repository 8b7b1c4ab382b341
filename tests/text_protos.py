"""Parses text files of protocol buffers as servers do."""

from google.protobuf import descriptor_pb2
from google.protobuf import descriptor_pool
from google.protobuf import message_factory
from google.protobuf import text_format


def parse(path, message, messages, enums=None):
    """Returns the message in a file.

    Args:
        path: path of the file.
        message: name of the message.
        messages: dict from names of messages to their fields, written as
            "name type, ..."; `*` after the type marks a repeated field.
        enums: dict from names of enumerations to dicts of their numbers.
    """
    enums = enums or {}
    file = descriptor_pb2.FileDescriptorProto(name="messages", syntax="proto3")
    for name, numbers in enums.items():
        enum = file.enum_type.add(name=name)
        enum.value.add(name="INVALID", number=0)
        for value, number in numbers.items():
            enum.value.add(name=value, number=number)
    for name, fields in messages.items():
        made = file.message_type.add(name=name)
        for number, field in enumerate(fields.split(", "), 1):
            field_name, kind = field.split()
            field = made.field.add(name=field_name, number=number)
            field.label = 3 if kind.endswith("*") else 1
            kind = kind.removesuffix("*")
            if kind in messages or kind in enums:
                field.type_name = kind
            else:
                field.type = getattr(field, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(message))
    return text_format.Parse(path.read_text(), kind())
