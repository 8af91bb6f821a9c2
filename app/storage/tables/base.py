"""The common base of all tables."""

from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from sqlalchemy import (
    DateTime,
    Interval,
    LargeBinary,
    MetaData,
    Text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase

NAMING: Final = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

Json = dict[str, Any]


class Base(DeclarativeBase):
    """The common base of all tables.

    It defines the names of constraints, and the types of columns.
    """

    metadata: ClassVar[MetaData] = MetaData(naming_convention=NAMING)
    type_annotation_map: ClassVar = {
        str: Text,
        bytes: LargeBinary,
        datetime: DateTime(timezone=True),
        timedelta: Interval(),
        Json: JSONB,
        list[list[str]]: JSONB,
        list[str]: JSONB,
    }
